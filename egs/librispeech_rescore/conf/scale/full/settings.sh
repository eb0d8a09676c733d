# shellcheck shell=bash disable=SC2034
# The paper's: 960 h, language models of their full size (P3, section 4).
train_parts=(train-clean-100 train-clean-360 train-other-500)
make_lms=false
corpus_size=
latency_options=()
asr_vocab_size=5000
asr_epochs=best:10
