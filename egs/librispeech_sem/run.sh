#!/usr/bin/env bash
# Small Energy Masking for end-to-end speech recognition (Kim et al. 2020, "P2") on LibriSpeech.
# Makes a table of the paper: prepares the data, trains the systems that the table lacks, decodes, scores, and prints the paper's
# numbers beside its own. Without --librispeech it makes a small synthetic corpus in LibriSpeech's layout.
#
# Examples:
#   ./run.sh --table 1 --rows baseline,0dB                       # two systems on the synthetic corpus
#   ./run.sh --scale full --librispeech /data/LibriSpeech --table 1 --ngpu 4
#   ./run.sh --help
set -euo pipefail

# begin options
. "$(dirname "$0")/../../utils/options.sh" # those of all recipes, such as --scale; below are this one's own
# What to run
pretrain=        # {true|false} layer-wise pre-training; the scale's own choice if empty
average=         # <best:N|last:N> decode the mean of the N best or last epochs; the scale's own choice if empty
# Data
librispeech=     # <DIR> the LibriSpeech corpus (the folder with SPEAKERS.TXT); synthetic if empty
lm_text=         # <FILE> librispeech-lm-norm.txt.gz; the file of that name in the corpus folder if empty
# end options

# begin stages
# 1 data            the corpus: synthetic, or yours, checked; Lhotse manifests
# 2 format          Kaldi data dirs
# 3 tokens          word pieces
# 4 statistics      lengths, mean and variance of the features
# 5 language model  only for tables whose decoding uses one
# 6 training        each system and seed that the table lacks
# 7 decoding        test sets by each system
# 8 scoring         word error rates
# 9 tables          results as JSON and Markdown, paper beside ours
# end stages

. "$(dirname "$0")/../../utils/recipe.sh" librispeech lm_text -- "$@"

tokens_dir=$datadir/tokens_$token_type$vocab_size
test_sets=(test-clean test-other)
parts=("${train_parts[@]}" dev-clean dev-other "${test_sets[@]}")
valid_set=dev
score_unit=wer
train_options=()
. ../../utils/asr.sh
. ../../utils/asr_systems.sh

if stage 1 "Data"; then
  if [[ -z $librispeech ]]; then synthetic_corpus librispeech; fi
  corpus_manifests "$corpus_name" manifests "${parts[@]/#/$corpus/}" -- \
    librispeech --corpus "$corpus" --parts "$(joined , "${parts[@]}")"
fi

if stage 2 "Format"; then
  asr_format librispeech "${parts[@]}"
  asr_combine train "${train_parts[@]}"
  asr_combine dev dev-clean dev-other
fi

if stage 3 "Tokens"; then
  asr_tokens train "$token_type" "$vocab_size"
fi

if stage 4 "Statistics"; then
  statistics
fi

if stage 5 "Language model"; then
  language_model "${lm_text:-$corpus/librispeech-lm-norm.txt.gz}"
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
