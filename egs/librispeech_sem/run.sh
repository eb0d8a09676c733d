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
# What to run
table=1          # <T> number of a table of the paper, several separated by commas, or all
rows=            # <a,b> rows of the table by name; all if empty
scale=mini       # {smoke|mini|full} size of the models and of the synthetic corpus; full is the paper's
seed=1           # <N,N> seeds, separated by commas
pretrain=        # {true|false} layer-wise pre-training; the scale's own choice if empty
average=         # <best:N|last:N> decode the mean of the N best or last epochs; the scale's own choice if empty
stage=1          # first stage to run
stop_stage=9     # last stage to run
# Data
librispeech=     # <DIR> the LibriSpeech corpus (the folder with SPEAKERS.TXT); a synthetic corpus if empty
lm_text=         # <FILE> librispeech-lm-norm.txt.gz, if it does not lie in the corpus folder
check_audio=auto # {auto|header|full} how the audio is checked: auto decodes all of a small corpus, reads the headers of a large one
# Resources
ngpu=0           # GPUs of one training
nj=2             # processes on this machine
parallel=        # <FILE> conf/parallel/*.yaml: statistics and decoding on a cluster
# Folders
expdir=          # <DIR> systems and results; exp/<scale> if empty, exp/<scale>-<corpus> for another corpus than the scale's own
datadir=         # <DIR> data dirs; data/<scale> or data/<scale>-<corpus> if empty
# end options

# begin stages
# 1 data          the corpus: synthetic, or yours, checked; Lhotse manifests
# 2 format        Kaldi data dirs
# 3 tokens        word pieces
# 4 statistics    lengths, mean and variance of the features
# 5 language model  only for tables whose decoding uses one
# 6 training      each system and seed that the table lacks
# 7 decoding      test sets by each system
# 8 scoring       word error rates
# 9 tables        results as JSON and Markdown, paper beside ours
# end stages

command_line="./run.sh $*"
. "$(dirname "$0")/../../utils/parse_options.sh"
[[ $# -eq 0 ]] || { echo "run.sh: error: unexpected argument '$1' (run.sh --help lists the options)" >&2; exit 1; }
. "$(dirname "$0")/../../utils/recipe.sh" librispeech lm_text

tokens_dir=$datadir/tokens_$token_type$vocab_size
test_sets=(test-clean test-other)
parts=("${train_parts[@]}" dev-clean dev-other "${test_sets[@]}")
valid_set=dev
score_unit=wer
train_options=()
. ../../utils/asr.sh
. ../../utils/asr_systems.sh

if stage 1 "Data"; then
  if [[ -z $librispeech ]]; then
    step --name "synthetic corpus" --log "$datadir/log/corpus.log" --nokey "--nj $nj" -- \
      "$python" -m espnet_ext.bin.make_mini --corpus librispeech --size "$corpus_size" --output "$corpus" {}
  fi
  list_files "$datadir/log/corpus_files.txt" "${parts[@]/#/$corpus/}"
  step --name "manifests of $corpus_name" --log "$datadir/log/manifests.log" --nokey "--nj $nj" \
    --input "$datadir/log/corpus_files.txt" --output "$datadir/manifests" -- \
    "$python" -m espnet_ext.bin.prepare_corpus librispeech --corpus "$corpus" --output "$datadir/manifests" \
    --check-audio "$check_audio" \
    --parts "$(IFS=,; echo "${parts[*]}")" {}
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
  write_asr_tables "$corpus_name" "$command_line"
fi
