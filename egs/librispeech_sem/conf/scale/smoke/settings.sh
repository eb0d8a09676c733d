# shellcheck shell=bash disable=SC2034
# All stages in at most 3 minutes: says only that the plumbing holds.
train_parts=(train-clean-100)
token_type=bpe
vocab_size=60
pretrain=${pretrain:-false}
average=${average:-best:1}
corpus_size=smoke
