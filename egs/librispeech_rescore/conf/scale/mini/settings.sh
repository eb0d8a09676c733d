# shellcheck shell=bash disable=SC2034
# The synthetic corpus: Whisper's lists of 1,344 utterances take about 7 minutes on 2 cores, each language model and system a few.
train_parts=(train-clean-100 train-other-500)
make_lms=true
corpus_size=mini-${first_pass:?}
latency_options=()
asr_vocab_size=300
asr_epochs=best:3
