# shellcheck shell=bash disable=SC2034
# The synthetic corpus, or a small real one. Its utterances are a fifth as long as LibriSpeech's; so are recordings and windows.
train_parts=(train-clean-100)
token_type=bpe
vocab_size=300
stitcher_token_type=bpe
stitcher_vocab_size=500 # nearly all words are one piece
corpus_size=mini
recogniser=${recogniser:-lstm}
single_first=true # train the recogniser on single utterances first
windows_last=true # train it last on mixtures that are cut as windows are
window=8
speeds=(0.83 0.91 1.1 1.21)
train_enrolment=5
mixing=(
  'train_single --utterances 1-1 --speakers 1 --overlap 0 --count 3000 --seed 1'
  'train_sa --utterances 1-5 --speakers 5 --overlap 0.2 --count 3000 --seed 2'
  'dev_sa --utterances 1-5 --speakers 5 --overlap 0.2 --seed 3'
  'train_stitch --utterances 1-12 --speakers 6 --overlap 0.2 --count 300 --seed 4'
  'train_simulated --no-audio --utterances 1-12 --speakers 6 --overlap 0.2 --count 8000 --seed 9'
  'dev_simulated --no-audio --utterances 1-12 --speakers 6 --overlap 0.2 --count 200 --seed 10'
  'dev-short --utterances 3-8 --speakers 6 --overlap 0.2 --seed 5'
  'dev-long --utterances 5-12 --speakers 6 --overlap 0.2 --seed 6'
  'test-short --utterances 3-8 --speakers 6 --overlap 0.2 --seed 7'
  'test-long --utterances 5-12 --speakers 6 --overlap 0.2 --seed 8'
)
