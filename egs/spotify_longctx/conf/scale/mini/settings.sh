# shellcheck shell=bash disable=SC2034
# The synthetic corpora, or small real ones: a few minutes a system on one core.
token_type=bpe
vocab_size=200
ngram_order=4
keep_features=true
corpus_size=mini
spotify_options=()
held_out=3
context_configs=(conf/train.yaml)
context_seconds=30
