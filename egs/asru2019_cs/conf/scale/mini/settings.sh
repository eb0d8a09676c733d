# shellcheck shell=bash disable=SC2034
# The synthetic corpus: at most about 5 minutes a system on 2 cores.
token_type=mixed
vocab_size=150
average=${average:-best:3}
corpus_size=mini
