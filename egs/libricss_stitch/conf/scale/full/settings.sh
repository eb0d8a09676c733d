# shellcheck shell=bash disable=SC2034
# The paper's: 960 h, mixtures as its Table 1 counts them. Overlap, and the fewest and most utterances of a test mixture, are ours.
train_parts=(train-clean-100 train-clean-360 train-other-500)
token_type=unigram
vocab_size=16000 # [9]: "16k subwords based on a unigram language model"
stitcher_token_type=bpe
stitcher_vocab_size=16000
corpus_size=
recogniser=${recogniser:-lstm}
single_first=true # train the recogniser on single utterances first
windows_last=false # train it last on mixtures that are cut as windows are
window=16        # section 4.1.1
speeds=() # 2,338 speakers are enough
train_enrolment=10
mixing=(
  'train_single --utterances 1-1 --speakers 1 --overlap 0 --seed 1'
  'train_sa --utterances 1-5 --speakers 5 --overlap 0.2 --count 500000 --seed 2'
  'dev_sa --utterances 1-5 --speakers 5 --overlap 0.2 --seed 3'
  'train_stitch --utterances 1-12 --speakers 6 --overlap 0.2 --count 50083 --seed 4'
  'dev-short --utterances 2-8 --speakers 6 --overlap 0.2 --count 513 --seed 5'
  'dev-long --utterances 5-12 --speakers 6 --overlap 0.2 --count 319 --seed 6'
  'test-short --utterances 2-8 --speakers 6 --overlap 0.2 --count 496 --seed 7'
  'test-long --utterances 5-12 --speakers 6 --overlap 0.2 --count 310 --seed 8'
)
