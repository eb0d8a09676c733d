# shellcheck shell=bash disable=SC2034
# The paper's: 1.0k English word pieces (section 4.2).
token_type=mixed
vocab_size=1000
average=${average:-best:10}
corpus_size=
