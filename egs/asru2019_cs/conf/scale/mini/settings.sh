# shellcheck shell=bash disable=SC2034
# The synthetic corpus: 6 minutes a system on one core with code-switching speech alone, 20 with all data.
token_type=mixed
vocab_size=150
average=${average:-best:3}
corpus_size=mini
