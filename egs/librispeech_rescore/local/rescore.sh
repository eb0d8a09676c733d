# shellcheck shell=bash
# What the stages of this recipe do. It reads the settings of run.sh and systems.sh.
#
#   $expdir/asr                           the recogniser of --first_pass espnet
#   $expdir/lists/<part>.jsonl            N-best lists of each part
#   $expdir/lm/seed<N>/<lm>               language models adapted to the LM text, in model/
#   $expdir/<system>/seed<N>              systems, in model/, and what they make of the test sets, in decode_default/
: "${python:?}" "${expdir:?}" "${datadir:?}" "${lm_dir:?}" "${lm_text:?}" "${scale:?}" "${ngpu:?}" "${plan:?}" "${seeds:?}"
: "${parts:?}" "${train_parts:?}" "${test_sets:?}" "${nbest_lists=}" "${whisper=}" "${gpt2=}" "${bert=}" "${make_lms:?}" "${asr_vocab_size:?}" "${asr_epochs:?}" "${nj:?}" "${latency_options[*]-}"
gpu=$((ngpu > 0 ? 1 : 0))
lists=$expdir/lists

# The dev set on which a test set's weight is tuned: P3 tunes "on the corresponding development sets".
dev_of() { echo "dev-${1#test-}"; }

# A setting of a system, such as lm or scorer; nothing where it has none.
#   setting SYSTEM KEY
setting() { awk -v key="$2:" '$1 == key {print $2}' "$expdir/configs/$1.yaml"; }

# What makes a system, by its config: first_pass (the first pass and its oracle, of which nothing is trained), lm_adapt or mwer.
kind_of() { basename "$(paper_config "$1")" .yaml; }

# An ESPnet model, and its N-best lists.
recognise() {
  local dir=$expdir/asr config=$expdir/configs/asr_train.yaml
  scale_config asr_train "$config" || return 1
  scale_config asr_decode "$expdir/configs/decode_nbest.yaml" || return 1
  asr_combine dev dev-clean dev-other || return 1
  asr_tokens "$asr_part" bpe "$asr_vocab_size" || return 1
  asr_stats "$config" "$asr_part" dev bpe || return 1
  asr_train "$dir" "$config" "$asr_part" dev bpe 1 || return 1
  asr_average "$dir" "$asr_epochs" || return 1
  asr_decode "$nj" "$dir" "$(asr_averaged "$asr_epochs")" nbest "${parts[*]}"
}

# N-best lists of all parts: Whisper's, the ESPnet model's, or those given.
first_pass() {
  local part source inputs=() outputs=()
  if [[ -z $nbest_lists && -n ${asr_part-} ]]; then
    recognise || return 1
    nbest_lists=$expdir/asr/decode_nbest
  fi
  if [[ -n $nbest_lists ]]; then
    for part in "${parts[@]}"; do
      source=$nbest_lists/$part
      [[ -e $source ]] || source+=.jsonl
      step --name "lists of $part" --log "$lists/log/$part.log" --input "$datadir/$part/text" --output "$lists/$part.jsonl" -- \
        "$python" -m espnet_ext.bin.nbest convert --nbest "$source" --ref "$datadir/$part/text" --distinct \
        --output "$lists/$part.jsonl" || return 1
    done
    return
  fi
  scale_config first_pass "$expdir/configs/whisper.yaml" || return 1
  for part in "${parts[@]}"; do
    inputs+=(--input "$datadir/$part/wav.scp" --output "$lists/$part/nbest.jsonl")
    outputs+=("$lists/$part")
  done
  step --name "Whisper" --log "$lists/log/first_pass.log" "${inputs[@]}" --nokey "$(asr_jobs) --ngpu $gpu" -- \
    "$python" -m espnet_ext.bin.first_pass --config "$expdir/configs/whisper.yaml" ${whisper:+--model "$whisper"} \
    --data "${parts[@]/#/$datadir/}" --output "${outputs[@]}" {} || return 1
  for part in "${parts[@]}"; do cp "$lists/$part/nbest.jsonl" "$lists/$part.jsonl" || return 1; done
}

# What the lists hold, and what the best choice from them would give.
list_statistics() {
  local part
  for part in "${parts[@]}"; do
    step --name "lists of $part" --log "$lists/log/stats_$part.log" --input "$lists/$part.jsonl" -- \
      "$python" -m espnet_ext.bin.nbest stats --nbest "$lists/$part.jsonl" --output "$lists/stats_$part.json" || return 1
    step --name "oracle of $part" --log "$lists/log/oracle_$part.log" --input "$lists/$part.jsonl" \
      --output "$lists/oracle_$part.txt" -- "$python" -m espnet_ext.bin.nbest oracle --nbest "$lists/$part.jsonl" \
      --text "$lists/oracle_$part.txt" --output "$lists/oracle_$part.json" || return 1
    say "$(grep 'WER' "$lists/log/oracle_$part.log" | tr -s ' ' | sed -n '1p; $p' | paste -sd ';')"
  done
}

# The language models that the plan needs, a line each with a seed.
lm_jobs() {
  local name number
  while IFS=$'\t' read -r name _; do
    system_config "$name" || return 1
    setting "$name" lm
  done <<<"$plan" | sort -u | while read -r name; do
    for number in $seeds; do printf '%s\t%s\n' "$name" "$number"; done
  done
}

# Adapt a language model to the LM text ("We domain adapt both", P3, section 4.2.2); at small scales it is made first.
#   adapt_lm LM SEED
adapt_lm() {
  local dir=$lm_dir/seed$2/$1 kind=${1%%-*} lm=$1
  [[ -z ${!kind} ]] || lm=${!kind}
  if [[ $lm == "$1" && $make_lms == true ]]; then
    lm=$dir/made
    step --name "make $kind (seed $2)" --log "$dir/log/make.log" --output "$lm/config.json" -- \
      "$python" -m espnet_ext.bin.make_lm --text "$lm_text" --config "conf/scale/$scale/$kind.yaml" --seed "$2" --output "$lm" ||
      return 1
  fi
  scale_config lm_adapt "$expdir/configs/lm_adapt.yaml" || return 1
  step --name "adapt $kind (seed $2)" --log "$dir/log/adapt.log" --output "$dir/model" --resumes "$dir" --nokey "--ngpu $gpu" -- \
    "$python" -m espnet_ext.bin.lm_adapt --lm "$lm" --text "$lm_text" --dev-transcripts "$datadir"/dev-{clean,other}/text \
    --config "$expdir/configs/lm_adapt.yaml" --seed "$2" --output "$dir" {}
}

# train_system SYSTEM SEED
train_system() {
  local dir=$expdir/$1/seed$2 config=$expdir/configs/$1.yaml model part inputs=() transcripts=() nbest=()
  system_config "$1" || return 1
  [[ $(kind_of "$1") != first_pass ]] || return 0
  model=$lm_dir/seed$2/$(setting "$1" lm)/model
  for part in "${train_parts[@]}"; do
    transcripts+=("$datadir/$part/text")
    nbest+=("$lists/$part.jsonl")
  done
  if [[ $(kind_of "$1") == lm_adapt ]]; then
    step --name "train $1/seed$2" --log "$dir/log/train.log" --input "$model/config.json" --output "$dir/model" --resumes "$dir" \
      --nokey "--ngpu $gpu" -- "$python" -m espnet_ext.bin.lm_adapt --lm "$model" --config "$config" --seed "$2" --output "$dir" \
      --transcripts "${transcripts[@]}" --dev-transcripts "$datadir"/dev-{clean,other}/text {}
    return
  fi
  for part in "${train_parts[@]}" dev-clean dev-other; do inputs+=(--input "$lists/$part.jsonl"); done
  step --name "train $1/seed$2" --log "$dir/log/train.log" --input "$model/config.json" "${inputs[@]}" --output "$dir/model" \
    --resumes "$dir" --nokey "--ngpu $gpu" -- "$python" -m espnet_ext.bin.mwer_train --lm "$model" --config "$config" \
    --seed "$2" --nbest "${nbest[@]}" --dev "$lists"/dev-{clean,other}.jsonl --output "$dir" {}
}

# rescore_system SYSTEM SEED
rescore_system() {
  local dir=$expdir/$1/seed$2 set output first=()
  [[ $1 == oracle ]] || first=(--depth 1)
  for set in "${test_sets[@]}"; do
    output=$dir/decode_default/$set
    if [[ $(kind_of "$1") == first_pass ]]; then
      step --name "$1 of $set" --log "$output/log/choose.log" --input "$lists/$set.jsonl" --output "$output/text" -- \
        "$python" -m espnet_ext.bin.nbest oracle --nbest "$lists/$set.jsonl" \
        "${first[@]+"${first[@]}"}" --text "$output/text" || return 1
    else
      step --name "rescore $set by $1/seed$2" --log "$output/log/rescore.log" --input "$dir/model/config.json" \
        --input "$lists/$set.jsonl" --input "$lists/$(dev_of "$set").jsonl" --output "$output/text" --nokey "--ngpu $gpu" -- \
        "$python" -m espnet_ext.bin.rescore --nbest "$lists/$set.jsonl" --tune-on "$lists/$(dev_of "$set").jsonl" \
        --lm "$dir/model" --name "$1" --output "$output" {} || return 1
    fi
  done
}

# score_system SYSTEM SEED
score_system() {
  local set
  for set in "${test_sets[@]}"; do asr_score "$set" "$expdir/$1/seed$2/decode_default/$set" || return 1; done
}

# How long each scorer takes at its full size, into $expdir/<system>/latency.json.
latencies() {
  local name configs=()
  while IFS=$'\t' read -r name _; do
    [[ $(kind_of "$name") == first_pass ]] || configs+=("$expdir/configs/$name.yaml")
  done <<<"$plan"
  [[ -n ${configs[*]-} ]] || return 0
  step --name "latency" --log "$expdir/log/latency.log" --output "$expdir/latency.json" -- \
    "$python" local/bench_latency.py --output "$expdir/latency.json" --systems "${configs[@]}" "${latency_options[@]+"${latency_options[@]}"}"
}
