# shellcheck shell=bash disable=SC2034
# The paper's: 960 h, 10k word pieces ([17], section 4.1).
train_parts=(train-clean-100 train-clean-360 train-other-500)
token_type=bpe
vocab_size=10000
pretrain=${pretrain:-true}
average=${average:-best:5}
corpus_size=
