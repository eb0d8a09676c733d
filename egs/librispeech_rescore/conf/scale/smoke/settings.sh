# shellcheck shell=bash disable=SC2034
# All stages in at most 3 minutes: says only that the plumbing holds.
train_parts=(train-clean-100 train-other-500)
make_lms=true
corpus_size=smoke-${first_pass:?}
latency_options=(--layers 1 --runs 3 --seconds 1)
asr_vocab_size=60
asr_epochs=best:1
