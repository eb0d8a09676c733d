# shellcheck shell=bash disable=SC2034
# The paper's: 4095 word pieces (section 3.2); faulty podcasts are left out.
token_type=bpe
vocab_size=4095
ngram_order=4
keep_features=false
corpus_size=
spotify_options=(--drop-bad)
held_out=20
context_configs=(conf/train.yaml)
context_seconds=600
