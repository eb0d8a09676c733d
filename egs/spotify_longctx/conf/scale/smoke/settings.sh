# shellcheck shell=bash disable=SC2034
# All stages in at most 3 minutes: says only that the plumbing holds.
token_type=bpe
vocab_size=60
ngram_order=2
keep_features=false
corpus_size=smoke
spotify_options=()
held_out=1
context_configs=(conf/train.yaml conf/scale/smoke/train.yaml)
context_seconds=5
