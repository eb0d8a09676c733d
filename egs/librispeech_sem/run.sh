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

# paths of the caller's are relative to where the caller is
[[ -z $librispeech ]] || librispeech=$(realpath -m -- "$librispeech")
[[ -z $lm_text ]] || lm_text=$(realpath -m -- "$lm_text")
[[ ! -f $parallel ]] || parallel=$(realpath -- "$parallel") # else it is one of the recipe's
[[ -z $expdir ]] || expdir=$(realpath -m -- "$expdir")
[[ -z $datadir ]] || datadir=$(realpath -m -- "$datadir")
cd "$(dirname "$0")"
. ./path.sh
. ./cmd.sh
. ../../utils/stages.sh
((nj >= 1)) || die "--nj must be at least 1"
((ngpu >= 0)) || die "--ngpu must be at least 0"
[[ $seed =~ ^[0-9]+(,[0-9]+)*$ ]] || die "--seed takes whole numbers separated by commas, not '$seed'"
[[ -z $parallel || -f $parallel ]] || die "--parallel: there is no file $parallel"
# shellcheck source=conf/scale/mini/settings.sh
. "conf/scale/$scale/settings.sh"
[[ $average =~ ^(best|last):[1-9][0-9]*$ ]] || die "--average takes best:N or last:N, not '$average'"

corpus_name=synthetic
[[ -z $librispeech ]] || corpus_name=$(basename "$librispeech")
tag=$scale
if [[ $scale == full ]]; then
  [[ -n $librispeech ]] || die "--scale full needs --librispeech DIR (python -m espnet_ext.bin.prepare_corpus download fetches the corpus)"
elif [[ -n $librispeech ]]; then
  tag=$scale-$corpus_name
fi
expdir=${expdir:-exp/$tag}
datadir=${datadir:-data/$tag}
corpus=${librispeech:-$datadir/corpus}
tokens_dir=$datadir/tokens_$token_type$vocab_size
stats_dir=$expdir/stats
lm_dir=$expdir/lm
. ../../utils/asr.sh
test_sets=(test-clean test-other)
parts=("${train_parts[@]}" dev-clean dev-other "${test_sets[@]}")

tables=("$python" -m espnet_ext.bin.table)
selection=(--tables conf/tables.yaml --table "$table" ${rows:+--rows "$rows"})
plan=$("${tables[@]}" plan "${selection[@]}") || exit 1
decodings=$("${tables[@]}" decodings "${selection[@]}") || exit 1

if stage 1 "Data"; then
  if [[ -z $librispeech ]]; then
    step --name "synthetic corpus" --log "$datadir/log/corpus.log" --nokey "--nj $nj" -- \
      "$python" -m espnet_ext.bin.make_mini --corpus librispeech --size "$corpus_size" --output "$corpus" {}
  fi
  # what lies in the corpus: a file that is added, mended or replaced makes the manifests out of date
  mkdir -p "$datadir/log"
  find -L "${parts[@]/#/$corpus/}" -type f -printf '%p %s %T@\n' 2>/dev/null | sort >"$datadir/log/corpus_files.txt" || true
  step --name "manifests of $corpus_name" --log "$datadir/log/manifests.log" --nokey "--nj $nj" \
    --input "$datadir/log/corpus_files.txt" --output "$datadir/manifests" -- \
    "$python" -m espnet_ext.bin.prepare_corpus librispeech --corpus "$corpus" --output "$datadir/manifests" \
    --check-audio "$check_audio" \
    --parts "$(IFS=,; echo "${parts[*]}")" {}
fi

if stage 2 "Format"; then
  manifests=() outputs=()
  for part in "${parts[@]}"; do
    manifests+=(--recordings "$datadir/manifests/librispeech_recordings_$part.jsonl.gz")
    manifests+=(--supervisions "$datadir/manifests/librispeech_supervisions_$part.jsonl.gz")
    outputs+=(--output "$datadir/$part/text")
  done
  step --name "data dirs" --log "$datadir/log/format.log" --input "${manifests[1]}" "${outputs[@]}" -- \
    "$python" -m espnet_ext.bin.data_dir from-manifests "${manifests[@]}" "${parts[@]/#/$datadir/}"
  for set in train dev; do
    [[ $set == train ]] && sources=("${train_parts[@]}") || sources=(dev-clean dev-other)
    inputs=()
    for part in "${sources[@]}"; do inputs+=(--input "$datadir/$part/wav.scp" --input "$datadir/$part/text"); done
    step --name "data dir $set" --log "$datadir/log/format_$set.log" "${inputs[@]}" --output "$datadir/$set/text" -- \
      "$python" -m espnet_ext.bin.data_dir combine --suffix-source "$datadir/$set" "${sources[@]/#/$datadir/}"
  done
fi

if stage 3 "Tokens"; then
  asr_tokens train "$token_type" "$vocab_size"
fi

# the config of a system: the paper's, the scale's overlay, the system's own overrides
system_config() {
  "${tables[@]}" train-config --tables conf/tables.yaml --system "$1" --overlay "conf/scale/$scale/train.yaml" \
    --output "$expdir/configs/$1.yaml" >/dev/null
}

decode_config() {
  "${tables[@]}" decode-config --tables conf/tables.yaml --decoding "$1" --config conf/decode.yaml \
    --overlay "conf/scale/$scale/decode.yaml" --output "$expdir/configs/decode_$1.yaml" >/dev/null
}

if stage 4 "Statistics"; then
  system_config baseline
  asr_stats "$expdir/configs/baseline.yaml" train dev "$token_type"
fi

# Does a decoding use a language model or the prior?
uses() {
  awk -v key="$1:" '$1 == key && $2 > 0 {found = 1} END {exit !found}' "$expdir/configs/decode_$2.yaml"
}

if stage 5 "Language model"; then
  with_lm=0
  while IFS=$'\t' read -r _ decoding; do
    decode_config "$decoding"
    if uses lm_weight "$decoding"; then with_lm=1; fi
  done <<<"$decodings"
  if ((with_lm)); then
    "${tables[@]}" merge --config conf/train_lm.yaml --overlay "conf/scale/$scale/train_lm.yaml" \
      --output "$expdir/configs/lm.yaml" >/dev/null
    asr_lm "$expdir/configs/lm.yaml" "${lm_text:-$corpus/librispeech-lm-norm.txt.gz}" "$datadir/dev/text" "$token_type" 1
  else
    say "no decoding of these rows uses one"
  fi
fi

# jobs of a stage, a line each, over systems (or decodings) and seeds
seeds=${seed//,/ }
train_jobs() {
  local system seed
  while IFS=$'\t' read -r system _; do
    for seed in $seeds; do printf '%s\t%s\n' "$system" "$seed"; done
  done <<<"$plan"
}
score_jobs() {
  local system decoding seed
  while IFS=$'\t' read -r system decoding; do
    for seed in $seeds; do printf '%s\t%s\t%s\n' "$system" "$seed" "$decoding"; done
  done <<<"$decodings"
}
# all decodings of a system and seed in one job
decode_jobs() {
  local system seed names
  while IFS=$'\t' read -r system _; do
    names=$(awk -F '\t' -v name="$system" '$1 == name {printf "\t%s", $2}' <<<"$decodings")
    for seed in $seeds; do printf '%s\t%s%s\n' "$system" "$seed" "$names"; done
  done <<<"$plan"
}

# How many jobs of a stage run side by side here: one with a GPU or a cluster, which they share.
side_by_side() {
  local jobs
  jobs=$("$1" | wc -l)
  if ((ngpu > 0)) || [[ -n $2 ]]; then echo 1; else echo $((jobs < nj ? jobs : nj)); fi
}

train() {
  local dir=$expdir/$1/seed$2 config=$expdir/configs/$1.yaml init=()
  system_config "$1" || return 1
  if [[ $pretrain == true ]]; then
    asr_pretrain "$dir" "$config" "conf/pretrain.yaml conf/scale/$scale/pretrain.yaml" train dev "$token_type" "$2" || return 1
    config=$dir/pretrain/configs/final.yaml
    init=(--init_param "$dir/pretrain/final.pth")
  fi
  asr_train "$dir" "$config" train dev "$token_type" "$2" "${init[@]+"${init[@]}"}" || return 1
  asr_average "$dir" "$average"
}
# decode SYSTEM SEED DECODING...
decode() {
  local dir=$expdir/$1/seed$2 model decoding plain='' fused=''
  model=$(asr_averaged "$average")
  shift 2
  for decoding; do
    decode_config "$decoding" || return 1
    if uses lm_weight "$decoding" || uses prior_weight "$decoding"; then fused+=" $decoding"; else plain+=" $decoding"; fi
  done
  if [[ -n $plain ]]; then
    asr_decode "$((nj / decoders))" "$dir" "$model" "$plain" "${test_sets[*]}" || return 1
  fi
  if [[ -n $fused ]]; then
    asr_decode "$((nj / decoders))" "$dir" "$model" "$fused" "${test_sets[*]}" \
      --lm-config "$lm_dir/config.yaml" --lm-file "$lm_dir/valid.loss.ave.pth" -- --prior_file "$tokens_dir/prior.txt"
  fi
}
score() {
  local set
  for set in "${test_sets[@]}"; do asr_score "$set" "$expdir/$1/seed$2/decode_$3/$set" || return 1; done
}

if stage 6 "Training"; then
  run_jobs "$(side_by_side train_jobs '')" train <<<"$(train_jobs)"
fi

if stage 7 "Decoding"; then
  decoders=$(side_by_side decode_jobs "$parallel")
  run_jobs "$decoders" decode <<<"$(decode_jobs)"
fi

if stage 8 "Scoring"; then
  run_jobs 1 score <<<"$(score_jobs)"
fi

if stage 9 "Tables"; then
  "${tables[@]}" write "${selection[@]}" --expdir "$expdir" --scale "$scale" --corpus "$corpus_name" \
    --lm-perplexity "$lm_dir/perplexity/ppl" --command "$command_line"
fi
