# shellcheck shell=bash disable=SC2034
# All stages in at most 3 minutes: says only that the plumbing holds.
train_parts=(train-clean-100)
token_type=bpe
vocab_size=60
decode_model=valid.acc.ave.pth
corpus_size=smoke
