# shellcheck shell=bash disable=SC2034
# All stages in at most 3 minutes: says only that the plumbing holds.
token_type=mixed
vocab_size=60
average=${average:-best:1}
corpus_size=smoke
