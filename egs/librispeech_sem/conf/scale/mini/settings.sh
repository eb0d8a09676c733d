# shellcheck shell=bash disable=SC2034
# The synthetic corpus, or a small real one: at most about 5 minutes a system on 2 cores.
train_parts=(train-clean-100)
token_type=bpe
vocab_size=300
pretrain=${pretrain:-true}
average=${average:-best:3}
corpus_size=mini
