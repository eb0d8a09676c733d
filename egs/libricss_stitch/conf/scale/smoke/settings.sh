# shellcheck shell=bash disable=SC2034
# All stages in at most 3 minutes: says only that the plumbing holds.
train_parts=(train-clean-100)
token_type=bpe
vocab_size=60
stitcher_token_type=bpe
stitcher_vocab_size=60
corpus_size=smoke
recogniser=${recogniser:-lstm}
single_first=false # train the recogniser on single utterances first
windows_last=true # train it last on mixtures that are cut as windows are
window=4
speeds=(1.1)
train_enrolment=2
mixing=(
  'train_single --utterances 1-1 --speakers 1 --overlap 0 --seed 1'
  'train_sa --utterances 1-3 --speakers 3 --overlap 0.2 --count 24 --seed 2'
  'dev_sa --utterances 1-3 --speakers 3 --overlap 0.2 --count 4 --seed 3'
  'train_stitch --utterances 2-4 --speakers 3 --overlap 0.2 --count 8 --seed 4'
  'train_simulated --no-audio --utterances 2-4 --speakers 3 --overlap 0.2 --count 8 --seed 9'
  'dev_simulated --no-audio --utterances 2-4 --speakers 3 --overlap 0.2 --count 4 --seed 10'
  'dev-short --utterances 2-3 --speakers 3 --overlap 0.2 --count 3 --seed 5'
  'dev-long --utterances 4-5 --speakers 3 --overlap 0.2 --count 2 --seed 6'
  'test-short --utterances 2-3 --speakers 3 --overlap 0.2 --count 3 --seed 7'
  'test-long --utterances 4-5 --speakers 3 --overlap 0.2 --count 2 --seed 8'
)
