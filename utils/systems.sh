# shellcheck shell=bash
# The systems of a recipe's conf/tables.yaml, from their configs to their tables: what is alike in the run.sh of all recipes.
# Source it after asr.sh, with the settings of run.sh (scale, table, rows, seed, nj, ngpu, parallel, average, pretrain) and
#
#   token_type   bpe, mixed ...             valid_set   the data dir that training validates on
#   test_sets    array of data dirs         score_unit  wer or mer
#
# and the array train_options: more options of every training, or none.
# The data dir of a training set of several parts is called a+b, where conf/tables.yaml says `train: [a, b]`.
: "${python:?}" "${expdir:?}" "${datadir:?}" "${tokens_dir:?}" "${lm_dir:?}" "${nj:?}" "${ngpu:?}" "${parallel=}" "${test_sets:?}"
: "${scale:?}" "${table:?}" "${rows=}" "${seed:?}" "${average:?}" "${pretrain:=false}" "${token_type:?}" "${valid_set:?}" "${score_unit:?}"
[[ $seed =~ ^[0-9]+(,[0-9]+)*$ ]] || die "--seed takes whole numbers separated by commas, not '$seed'"
[[ $average =~ ^(best|last):[1-9][0-9]*$ ]] || die "--average takes best:N or last:N, not '$average'"
((nj >= 1)) || die "--nj must be at least 1"
((ngpu >= 0)) || die "--ngpu must be at least 0"
[[ -z $parallel || -f $parallel ]] || die "--parallel: there is no file $parallel"

tables=("$python" -m espnet_ext.bin.table)
selection=(--tables conf/tables.yaml --table "$table" ${rows:+--rows "$rows"})
plan=$("${tables[@]}" plan "${selection[@]}") || exit 1
decodings=$("${tables[@]}" decodings "${selection[@]}") || exit 1
seeds=${seed//,/ }

# The config of a system: the paper's, the scale's overlay, the system's own overrides.
system_config() {
  "${tables[@]}" train-config --tables conf/tables.yaml --system "$1" --overlay "conf/scale/$scale/train.yaml" \
    --output "$expdir/configs/$1.yaml" >/dev/null
}

decode_config() {
  "${tables[@]}" decode-config --tables conf/tables.yaml --decoding "$1" --config conf/decode.yaml \
    --overlay "conf/scale/$scale/decode.yaml" --output "$expdir/configs/decode_$1.yaml" >/dev/null
}

# Does a decoding use lm_weight, or prior_weight?
#   uses WEIGHT DECODING
uses() {
  awk -v key="$1:" '$1 == key && $2 > 0 {found = 1} END {exit !found}' "$expdir/configs/decode_$2.yaml"
}

# The data dir that a system is trained on, and each one that the plan needs with the first system that needs it.
training_set() { awk -F '\t' -v name="$1" '$1 == name {gsub(" ", "+", $3); print $3}' <<<"$plan"; }
training_sets() { awk -F '\t' '{gsub(" ", "+", $3)} !seen[$3]++ {printf "%s\t%s\n", $3, $1}' <<<"$plan"; }

# Statistics of each training set.
statistics() {
  local set name
  while IFS=$'\t' read -r set name; do
    system_config "$name" || return 1
    asr_stats "$expdir/configs/$name.yaml" "$set" "$valid_set" "$token_type" || return 1
  done <<<"$(training_sets)"
}

# The language model, if a decoding uses one.
#   language_model TEXT
language_model() {
  local decoding wanted=0
  while IFS=$'\t' read -r _ decoding; do
    decode_config "$decoding" || return 1
    if uses lm_weight "$decoding"; then wanted=1; fi
  done <<<"$decodings"
  if ((wanted)); then
    "${tables[@]}" merge --config conf/train_lm.yaml --overlay "conf/scale/$scale/train_lm.yaml" \
      --output "$expdir/configs/lm.yaml" >/dev/null || return 1
    asr_lm "$expdir/configs/lm.yaml" "$1" "$datadir/$valid_set/text" "$token_type" 1
  else
    say "no decoding of these rows uses one"
  fi
}

# Jobs of a stage, a line each.
train_jobs() {
  local name number
  while IFS=$'\t' read -r name _; do
    for number in $seeds; do printf '%s\t%s\n' "$name" "$number"; done
  done <<<"$plan"
}
decode_jobs() { # all decodings of a system and seed in one job
  local name number names
  while IFS=$'\t' read -r name _; do
    names=$(awk -F '\t' -v name="$name" '$1 == name {printf "\t%s", $2}' <<<"$decodings")
    for number in $seeds; do printf '%s\t%s%s\n' "$name" "$number" "$names"; done
  done <<<"$plan"
}
score_jobs() {
  local name number decoding
  while IFS=$'\t' read -r name decoding; do
    for number in $seeds; do printf '%s\t%s\t%s\n' "$name" "$number" "$decoding"; done
  done <<<"$decodings"
}

# How many jobs of a stage run side by side here: one with a GPU or a cluster, which they share.
side_by_side() {
  local jobs
  jobs=$("$1" | wc -l)
  if ((ngpu > 0)) || [[ -n $2 ]]; then echo 1; else echo $((jobs < nj ? jobs : nj)); fi
}

# train_system SYSTEM SEED
train_system() {
  # shellcheck disable=SC2154 # the recipe's
  local dir=$expdir/$1/seed$2 config=$expdir/configs/$1.yaml set options=("${train_options[@]+"${train_options[@]}"}")
  set=$(training_set "$1")
  system_config "$1" || return 1
  if [[ $pretrain == true ]]; then
    asr_pretrain "$dir" "$config" "conf/pretrain.yaml conf/scale/$scale/pretrain.yaml" "$set" "$valid_set" "$token_type" "$2" ||
      return 1
    config=$dir/pretrain/configs/final.yaml
    options+=(--init_param "$dir/pretrain/final.pth")
  fi
  asr_train "$dir" "$config" "$set" "$valid_set" "$token_type" "$2" "${options[@]+"${options[@]}"}" || return 1
  asr_average "$dir" "$average"
}

# decode_system SYSTEM SEED DECODING...
decode_system() {
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

# score_system SYSTEM SEED DECODING
score_system() {
  local set
  for set in "${test_sets[@]}"; do asr_score "$set" "$expdir/$1/seed$2/decode_$3/$set" "$score_unit" || return 1; done
}

train_systems() { run_jobs "$(side_by_side train_jobs '')" train_system <<<"$(train_jobs)"; }
decode_systems() {
  local decoders
  decoders=$(side_by_side decode_jobs "$parallel")
  run_jobs "$decoders" decode_system <<<"$(decode_jobs)"
}
score_systems() { run_jobs 1 score_system <<<"$(score_jobs)"; }

# write_tables CORPUS_NAME COMMAND_LINE
write_tables() {
  "${tables[@]}" write "${selection[@]}" --expdir "$expdir" --scale "$scale" --corpus "$1" \
    --lm-perplexity "$lm_dir/perplexity/ppl" --command "$2"
}
