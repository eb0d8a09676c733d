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
# What to run
table=1          # <T> number of a table of the paper, several separated by commas, or all
rows=            # <a,b> rows of the table by name; all if empty
scale=mini       # {smoke|mini|full} size of the models and of the synthetic corpus; full is the paper's
seed=1           # <N,N> seeds, separated by commas
average=         # <best:N|last:N> decode the mean of the N best or last epochs; the scale's own choice if empty
stage=1          # first stage to run
stop_stage=9     # last stage to run
# Data
asru2019=        # <DIR> the challenge's corpus: train-cs, train-zh, dev and test (README.md says what they hold); synthetic if empty
librispeech=     # <DIR> LibriSpeech, of which train-clean-100 and 360 are used; the folder LibriSpeech of the corpus if empty
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
# 3 tokens        Han characters and English word pieces, and the language of each
# 4 statistics    lengths, mean and variance of the features
# 6 training      each system and seed that the table lacks
# 7 decoding      test sets by each system
# 8 scoring       mixed error rates: all tokens, Chinese characters, English words
# 9 tables        results as JSON and Markdown, paper beside ours
# end stages

command_line="./run.sh $*"
. "$(dirname "$0")/../../utils/parse_options.sh"
[[ $# -eq 0 ]] || { echo "run.sh: error: unexpected argument '$1' (run.sh --help lists the options)" >&2; exit 1; }
. "$(dirname "$0")/../../utils/recipe.sh" asru2019 librispeech

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
  if [[ -z $asru2019 ]]; then
    step --name "synthetic corpus" --log "$datadir/log/corpus.log" --nokey "--nj $nj" -- \
      "$python" -m espnet_ext.bin.make_mini --corpus asru2019 --size "$corpus_size" --output "$corpus" {}
  fi
  list_files "$datadir/log/corpus_files.txt" "$corpus" ${librispeech:+"$librispeech"}
  step --name "manifests of $corpus_name" --log "$datadir/log/manifests.log" --nokey "--nj $nj" \
    --input "$datadir/log/corpus_files.txt" --output "$datadir/manifests" -- \
    "$python" -m espnet_ext.bin.prepare_corpus asru2019 --corpus "$corpus" ${librispeech:+--librispeech "$librispeech"} \
    --output "$datadir/manifests" --check-audio "$check_audio" --parts "$(IFS=,; echo "${parts[*]}")" {}
fi

if stage 2 "Format"; then
  asr_format asru2019 "${parts[@]}"
  asr_combine "$(IFS=+; echo "${train_parts[*]}")" "${train_parts[@]}"
  while IFS=$'\t' read -r set _; do
    IFS=+ read -ra sources <<<"$set"
    ((${#sources[@]} == 1)) || asr_combine "$set" "${sources[@]}"
  done <<<"$(training_sets)"
fi

if stage 3 "Tokens"; then
  asr_tokens "$(IFS=+; echo "${train_parts[*]}")" "$token_type" "$vocab_size" "${english_parts[@]}"
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
  write_asr_tables "$corpus_name" "$command_line"
fi
