#!/usr/bin/env bash
# Language-related attention for Mandarin-English code-switching (Zhang et al. 2022, "P1") on the corpora of the ASRU 2019 challenge.
# Makes a table of the paper: prepares the data, trains the systems that the table lacks, decodes, scores, and prints the paper's
# numbers beside its own. Without --asru2019 it makes a small synthetic corpus in the same layout.
#
# Examples:
#   ./run.sh --table 1 --rows baseline,separate                  # two systems on the synthetic corpus
#   ./run.sh --scale full --asru2019 /data/asru2019 --librispeech /data/LibriSpeech --table 1 --ngpu 2
#   ./run.sh --help
set -euo pipefail

# begin options
. "$(dirname "$0")/../../utils/options.sh" # those of all recipes, such as --scale; below are this one's own
# What to run
average=         # <best:N|last:N> decode the mean of the N best or last epochs; the scale's own choice if empty
# Data
asru2019=        # <DIR> the challenge's corpus: train-cs, train-zh, dev and test (README.md says what they hold); synthetic if empty
librispeech=     # <DIR> LibriSpeech, of which train-clean-100 and 360 are used; the folder LibriSpeech of the corpus if empty
# end options

# begin stages
# 1 data            the corpus: synthetic, or yours, checked; Lhotse manifests
# 2 format          Kaldi data dirs
# 3 tokens          Han characters and English word pieces, and the language of each
# 4 statistics      lengths, mean and variance of the features
# 6 training        each system and seed that the table lacks
# 7 decoding        test sets by each system
# 8 scoring         mixed error rates: all tokens, Chinese characters, English words
# 9 tables          results as JSON and Markdown, paper beside ours
# end stages

. "$(dirname "$0")/../../utils/recipe.sh" asru2019 librispeech -- "$@"

tokens_dir=$datadir/tokens_$token_type$vocab_size
english_parts=(train-clean-100 train-clean-360)
train_parts=(train-cs train-zh "${english_parts[@]}")
test_sets=(dev test)
parts=("${train_parts[@]}" "${test_sets[@]}")
valid_set=dev
score_unit=mer
train_options=(--decoder_conf "languages_file=$tokens_dir/languages.txt")
. ../../utils/asr.sh
. ../../utils/asr_systems.sh

if stage 1 "Data"; then
  if [[ -z $asru2019 ]]; then synthetic_corpus asru2019; fi
  corpus_manifests "$corpus_name" manifests "$corpus" ${librispeech:+"$librispeech"} -- \
    asru2019 --corpus "$corpus" ${librispeech:+--librispeech "$librispeech"} --parts "$(joined , "${parts[@]}")"
fi

if stage 2 "Format"; then
  asr_format asru2019 "${parts[@]}"
  asr_combine "$(joined + "${train_parts[@]}")" "${train_parts[@]}"
  while IFS=$'\t' read -r set _; do
    IFS=+ read -ra sources <<<"$set"
    ((${#sources[@]} == 1)) || asr_combine "$set" "${sources[@]}"
  done <<<"$(training_sets)"
fi

if stage 3 "Tokens"; then
  asr_tokens "$(joined + "${train_parts[@]}")" "$token_type" "$vocab_size" "${english_parts[@]}"
fi

if stage 4 "Statistics"; then
  statistics
fi

if stage 6 "Training"; then
  each_system train_system
fi

if stage 7 "Decoding"; then
  decode_systems
fi

if stage 8 "Scoring"; then
  score_systems
fi

if stage 9 "Tables"; then
  write_tables
fi
