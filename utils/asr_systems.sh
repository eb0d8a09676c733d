# shellcheck shell=bash
# The stages of recipes whose systems are ESPnet ASR models. Source it after asr.sh, with the settings of run.sh, with
#
#   token_type   bpe, mixed ...             valid_set   the data dir that training validates on
#   test_sets    array of data dirs         score_unit  wer or mer
#
# and the array train_options: more options of every training, or none.
# shellcheck source=utils/systems.sh
. "$(dirname "${BASH_SOURCE[0]}")/systems.sh"
: "${datadir:?}" "${tokens_dir:?}" "${lm_dir:?}" "${test_sets:?}" "${average:?}" "${pretrain:=false}" "${token_type:?}" "${valid_set:?}" "${score_unit:?}"
[[ $average =~ ^(best|last):[1-9][0-9]*$ ]] || die "--average takes best:N or last:N, not '$average'"

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
  local wanted
  wanted=$(lm_decodings) || return 1
  if [[ -n $wanted ]]; then
    scale_config train_lm "$expdir/configs/lm.yaml" || return 1
    asr_lm "$expdir/configs/lm.yaml" "$1" "$datadir/$valid_set/text" "$token_type" 1
  else
    say "no decoding of these rows uses one"
  fi
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

# The decodings of a system, a line each.
decodings_of() { awk -F '\t' -v name="$1" '$1 == name {print $2}' <<<"$decodings"; }

# All decodings of a system, in one command that loads the model once, and one more for those that need other models too.
#   decode_system SYSTEM SEED
decode_system() {
  local dir=$expdir/$1/seed$2 model decoding plain='' fused=''
  model=$(asr_averaged "$average")
  for decoding in $(decodings_of "$1"); do
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

# score_system SYSTEM SEED
score_system() {
  local decoding set
  for decoding in $(decodings_of "$1"); do
    for set in "${test_sets[@]}"; do
      asr_score "$set" "$expdir/$1/seed$2/decode_$decoding/$set" "$score_unit" || return 1
    done
  done
}
