# shellcheck shell=bash
# The stages of recipes that train on chunks of recordings and decode them by moving windows. Source it after asr.sh, with the
# settings of run.sh and
#
#   token_type   bpe, unigram ...                            valid_set, test_sets   data dirs
#   word_times   associative array: data dir of a training set -> its table of word times
#   zeroed       associative array: data dir of a test set -> file of regions that are silenced
#   keep_features  true: training reads features that are computed once; false: it computes them from the audio
#   normaliser     of scoring         musan   MUSAN's folder, or empty to generate music
# shellcheck source=utils/systems.sh
. "$(dirname "${BASH_SOURCE[0]}")/systems.sh"
: "${datadir:?}" "${tokens_dir:?}" "${stats_dir:?}" "${lm_dir:?}" "${test_sets:?}" "${valid_set:?}" "${token_type:?}" "${normaliser:?}" "${keep_features:?}" "${musan=}"

# Mean and deviation of each recording of a data dir, and with keep_features its features, in $stats_dir/SET.
#   recording_statistics CONFIG SET
recording_statistics() {
  local kept=()
  [[ $keep_features == false ]] || kept=(--keep-features)
  step --name "statistics of $2" --log "$stats_dir/$2/log/statistics.log" --nokey "$(asr_jobs)" \
    --input "$datadir/$2/wav.scp" --output "$stats_dir/$2/statistics.scp" -- \
    "$python" -m espnet_ext.bin.recording_statistics --data "$datadir/$2" --output "$stats_dir/$2" --config "$1" \
    "${kept[@]+"${kept[@]}"}" {}
}

# Those of the training and of the validation set. All systems have the features of the paper's config, conf/train.yaml.
statistics() {
  local set
  scale_config train "$expdir/configs/train.yaml" || return 1
  while IFS=$'\t' read -r set _; do
    [[ -n $set ]] || continue
    recording_statistics "$expdir/configs/train.yaml" "$set" || return 1
    recording_statistics "$expdir/configs/train.yaml" "$valid_set" || return 1
  done <<<"$(training_sets)"
}

# An n-gram model over the tokens of a training set, if a decoding uses one.
#   ngram_model SET ORDER
ngram_model() {
  local wanted
  wanted=$(lm_decodings) || return 1
  if [[ -n $wanted ]]; then
    step --name "$2-gram model" --log "$lm_dir/log/ngram.log" --input "$datadir/$1/text" --input "$tokens_dir/tokens.txt" \
      --input "$tokens_dir/bpe.model" --output "$lm_dir/lm.arpa" -- \
      "$python" -m espnet_ext.bin.ngram --text "$datadir/$1/text" --tokens "$tokens_dir/tokens.txt" \
      --bpemodel "$tokens_dir/bpe.model" --order "$2" --output "$lm_dir/lm.arpa"
  else
    say "no decoding of these rows uses one"
  fi
}

# The tables of a set that training on recordings reads.
#   recording_tables train|valid SET
recording_tables() {
  local option=--$1_data_path_and_name_and_type
  # shellcheck disable=SC2154 # the recipe's
  printf '%s\n' "$option" "$datadir/$2/wav.scp,speech,text" "$option" "$datadir/$2/utt2dur,duration,text" \
    "$option" "${word_times[$2]},words,text" "$option" "$stats_dir/$2/statistics.scp,statistics,text"
  [[ $keep_features == false ]] || printf '%s\n' "$option" "$stats_dir/$2/features.scp,features,text"
}

# train_system SYSTEM SEED
train_system() {
  local dir=$expdir/$1/seed$2 config=$expdir/configs/$1.yaml set name inputs=() options
  set=$(training_set "$1")
  system_config "$1" || return 1
  for name in "$set" "$valid_set"; do
    inputs+=(--input "$datadir/$name/wav.scp" --input "$datadir/$name/utt2dur" --input "${word_times[$name]}")
    inputs+=(--input "$stats_dir/$name/statistics.scp")
  done
  mapfile -t options < <(asr_token_options "$token_type"; recording_tables train "$set"; recording_tables valid "$valid_set")
  train_step "$dir" "${inputs[@]}" --output "$dir/config.yaml" -- \
    "$python" -m espnet_ext.bin.asr_train_long {} --config "$config" --output_dir "$dir" --seed "$2" --resume true \
    "${options[@]}"
}

# What a system is decoded with and on which test sets, a line each: decoding and sets.
decodings_of() { awk -F '\t' -v name="$1" '$1 == name {print $2 "\t" $3}' <<<"$decodings_and_sets"; }

# The last line of a decoding's log, but for what the MP3 decoder says of the frames before those that are read.
decode_progress() { tail -c 4000 "$1" | tr '\r' '\n' | grep -v '^#\|libmpg123\|^\s*$' | tail -n 1 | cut -c 1-120; }

# All decodings of a system in one command, which loads the model once.
#   decode_system SYSTEM SEED
decode_system() {
  local dir=$expdir/$1/seed$2 decoding sets set names=() inputs=() configs=() data=() outputs=() lm=() cut=()
  while IFS=$'\t' read -r decoding sets; do
    decode_config "$decoding" || return 1
    names+=("$decoding")
    if uses lm_weight "$decoding"; then lm=(--lm "$lm_dir/lm.arpa"); fi
    for set in $sets; do
      inputs+=(--input "$datadir/$set/wav.scp" --output "$dir/decode_$decoding/$set/text")
      [[ -z ${zeroed[$set]-} ]] || cut=(--zeroed "${zeroed[$set]}")
      configs+=("$expdir/configs/decode_$decoding.yaml")
      data+=("$datadir/$set")
      outputs+=("$dir/decode_$decoding/$set")
    done
  done <<<"$(decodings_of "$1")"
  step --name "decode ${dir#"$expdir"/} (${names[*]})" --log "$dir/log/decode_$(printf '%s_' "${names[@]}" | cksum | cut -d ' ' -f 1).log" \
    --progress decode_progress --input "$dir/config.yaml" "${inputs[@]}" --nokey "$(asr_jobs "$((nj / decoders))") --ngpu $((ngpu > 0 ? 1 : 0))" -- \
    "$python" -m espnet_ext.bin.ctc_decode_long --model-config "$dir/config.yaml" --model "$dir/latest.pth" \
    --config "${configs[@]}" --data "${data[@]}" --output "${outputs[@]}" "${lm[@]+"${lm[@]}"}" \
    "${cut[@]+"${cut[@]}"}" ${musan:+--musan "$musan"} {}
}

# score_system SYSTEM SEED
score_system() {
  local decoding sets set
  while IFS=$'\t' read -r decoding sets; do
    for set in $sets; do
      asr_score "$set" "$expdir/$1/seed$2/decode_$decoding/$set" wer --normaliser "$normaliser" || return 1
    done
  done <<<"$(decodings_of "$1")"
}

decodings_and_sets=$("${tables[@]}" decodings --test-sets "${selection[@]}") || exit 1
