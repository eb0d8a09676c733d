# shellcheck shell=bash
# Stages 4 to 8: the recogniser, what it hears in windows, stitchers. It reads the settings of run.sh, mixtures.sh and systems.sh.
#
#   $expdir/recogniser                  the speaker-attributed recogniser, what it begins with in first/, and where the scale says so,
#                                       what it becomes on mixtures that are cut as windows are, in windows/
#   $expdir/heard/<cut>/<set>           its hypotheses of a set cut in one way (see overlap_of)
#   $expdir/pairs/<cut>/<style>/<set>   training pairs of stitchers; dev is dev-short and dev-long
#   $expdir/first/<cut>/<style>         stitchers trained on simulated errors, with which others begin, where the scale has train_simulated
#   $expdir/<system>/seed<N>            systems: stitchers, and transcripts and scores in decode_default/<set>
: "${python:?}" "${expdir:?}" "${datadir:?}" "${stats_dir:?}" "${scale:?}" "${ngpu:?}" "${plan:?}" "${seeds:?}" "${recogniser:?}"
: "${tables[*]:?}" "${mixing[*]:?}" "${token_type:?}" "${window:?}" "${single_first:?}" "${windows_last:?}" "${stitcher_token_type:?}" "${stitcher_vocab_size:?}" "${test_sets:?}" "${mixture_sets:?}"
: "${profiles_dir:?}" "${profiles_overlay[*]-}"
gpu=$((ngpu > 0 ? 1 : 0))
recogniser_dir=$expdir/recogniser
hearing_dir=$recogniser_dir # the last training, which hears recordings
if [[ $windows_last == true ]]; then hearing_dir=$recogniser_dir/windows; fi
recogniser_config=$expdir/configs/sa_asr_$recogniser.yaml
recogniser_model=valid.acc.ave.pth

# What makes a system, by its config: no, block or overlapping (nothing is trained), or the stitcher's style.
method_of() {
  local name
  name=$(basename "$(paper_config "$1")" .yaml)
  echo "${name#stitcher_}"
}

# The share of a window that a cut's windows have in common; whole recordings are cut nowhere.
overlap_of() {
  case $1 in
    windows0) echo 0 ;;
    windows25) echo 0.25 ;;
    windows50) echo 0.5 ;;
  esac
}

recogniser_configs() {
  scale_config "sa_asr_$recogniser" "$recogniser_config" "${profiles_overlay[@]+"${profiles_overlay[@]}"}" || return 1
  if [[ $single_first == true ]]; then overlay_config sa_asr_first || return 1; fi
  if [[ $windows_last == true ]]; then overlay_config sa_asr_windows || return 1; fi
  scale_config sa_decode "$expdir/configs/sa_decode.yaml"
}

# The recogniser's config with what another of its trainings changes.
#   overlay_config NAME
overlay_config() {
  "${tables[@]}" merge --config "$recogniser_config" --overlay "conf/$1.yaml" "conf/scale/$scale/$1.yaml" \
    --output "$expdir/configs/$1.yaml" >/dev/null
}

# The sets that the recogniser learns from.
recogniser_sets() {
  echo train_sa
  if [[ $single_first == true ]]; then echo train_single; fi
  if [[ $windows_last == true ]]; then echo train_windows; fi
}

# Whether the recogniser's speaker encoder is the network of the profiles, whose output is computed once.
has_d_vectors() { grep -q '^speaker_encoder: d_vectors$' "$recogniser_config"; }

# The speaker encoder's output for sets, in one command.
#   compute_d_vectors SET...
compute_d_vectors() {
  local set files=()
  has_d_vectors || return 0
  for set; do files+=(--input "$datadir/$set/wav.scp" --input "$datadir/$set/text" --output "$datadir/$set/d_vectors.scp"); done
  step --name "d-vectors of $*" --log "$datadir/log/d_vectors.log" "${files[@]}" --nokey "$(asr_jobs)" -- \
    "$python" -m espnet_ext.bin.d_vectors --data "${@/#/$datadir/}" --output "${@/#/$datadir/}" --config "$recogniser_config" {}
}

# What the task of the recogniser reads besides audio and text.
#   mapfile -t options < <(speaker_options TRAIN_SET)
speaker_options() {
  printf '%s\n' --profiles "$profiles_dir/train/profiles.scp" \
    --train_data_path_and_name_and_type "$datadir/$1/text_speakers,speakers,text" \
    --valid_data_path_and_name_and_type "$datadir/dev_sa/text_speakers,speakers,text"
  if has_d_vectors; then
    printf '%s\n' --train_data_path_and_name_and_type "$datadir/$1/d_vectors.scp,d_vectors,kaldi_ark" \
      --valid_data_path_and_name_and_type "$datadir/dev_sa/d_vectors.scp,d_vectors,kaldi_ark"
  fi
}

# First single utterances, if the scale says so, then mixtures, last mixtures that are cut, if the scale says so; each begins with what
# the training before has learnt.
train_recogniser() {
  local options init=()
  recogniser_configs || return 1
  if [[ $single_first == true ]]; then
    mapfile -t options < <(speaker_options train_single)
    asr_train "$recogniser_dir/first" "$expdir/configs/sa_asr_first.yaml" train_single dev_sa "$token_type" 1 "${options[@]}" || return 1
    init=(--init_param "$recogniser_dir/first/$recogniser_model")
  fi
  mapfile -t options < <(speaker_options train_sa)
  asr_train "$recogniser_dir" "$recogniser_config" train_sa dev_sa "$token_type" 1 "${options[@]}" "${init[@]+"${init[@]}"}" || return 1
  if [[ $windows_last == true ]]; then
    mapfile -t options < <(speaker_options train_windows)
    asr_train "$hearing_dir" "$expdir/configs/sa_asr_windows.yaml" train_windows dev_sa "$token_type" 1 "${options[@]}" \
      --init_param "$recogniser_dir/$recogniser_model"
  fi
}

# The cuts that the plan's systems read, and those that its stitchers are trained on.
cuts() { cut -f 3 <<<"$plan" | sort -u; }
training_cuts() {
  local name cut
  while IFS=$'\t' read -r name _ cut; do
    if is_trained "$name"; then echo "$cut"; fi
  done <<<"$plan" | sort -u
}

is_trained() { [[ $(paper_config "$1") == */stitcher_* ]]; }

# The data dir of a set whose utterances are whole recordings, or LibriCSS's segments.
data_of() {
  if [[ $1 == libricss ]]; then echo "$datadir/libricss/segments/data"; else echo "$datadir/$1"; fi
}
inventory_of() {
  if [[ $1 == libricss ]]; then echo "$datadir/libricss/segments/inventory"; else echo "$datadir/$1/inventory"; fi
}
references_of() {
  if [[ $1 == libricss ]]; then echo "$datadir/libricss/segments/references.json"; else echo "$datadir/$1/references.json"; fi
}

# The windows of sets.
#   cut_windows CUT SET...
cut_windows() {
  local cut=$1 set data=() inputs=()
  shift
  [[ $cut != whole ]] || return 0
  for set; do
    data+=("$(data_of "$set")")
    inputs+=(--input "${data[-1]}/wav.scp" --input "${data[-1]}/reco2dur" --output "$datadir/$cut/$set/segments")
  done
  step --name "$cut of $*" --log "$datadir/$cut/log/$1.log" "${inputs[@]}" -- \
    "$python" -m espnet_ext.bin.stitch windows --data "${data[@]}" --window "$window" \
    --window-overlap "$(overlap_of "$cut")" --output "${@/#/$datadir/$cut/}"
}

# Recognise sets in all ways in which they are cut, in one command that loads the model once.
#   hear CUTS SETS
# CUTS and SETS are lists, split at blanks.
hear() {
  local cuts sets cut set profile inputs=() data=() inventories=() outputs=() profiles=()
  read -ra cuts <<<"$1"
  read -ra sets <<<"$2"
  recogniser_configs || return 1
  for cut in "${cuts[@]}"; do cut_windows "$cut" "${sets[@]}" || return 1; done
  for set in "${sets[@]}"; do
    profile=$profiles_dir/$(profiles_of "$set")/profiles.scp
    [[ " ${profiles[*]-} " == *" $profile "* ]] || profiles+=("$profile")
    for cut in "${cuts[@]}"; do
      if [[ $cut == whole ]]; then data+=("$(data_of "$set")"); else data+=("$datadir/$cut/$set"); fi
      inventories+=("$(inventory_of "$set")")
      outputs+=("$expdir/heard/$cut/$set")
      inputs+=(--input "${data[-1]}/wav.scp" --input "${inventories[-1]}" --output "${outputs[-1]}/hypotheses.jsonl")
    done
  done
  step --name "hear ${sets[*]} (${cuts[*]})" --log "$expdir/heard/log/${sets[0]}.log" "${inputs[@]}" \
    --input "$hearing_dir/$recogniser_model" --nokey "$(asr_jobs) --ngpu $gpu" -- \
    "$python" -m espnet_ext.bin.sa_asr_inference --model-config "$hearing_dir/config.yaml" \
    --model "$hearing_dir/$recogniser_model" --config "$expdir/configs/sa_decode.yaml" --data "${data[@]}" \
    --inventory "${inventories[@]}" --profiles "${profiles[@]}" --output "${outputs[@]}" {}
}

# train_system SYSTEM SEED
train_system() {
  local style cut pairs set file first=()
  is_trained "$1" || return 0
  style=$(method_of "$1") cut=$(training_set "$1")
  pairs=$expdir/pairs/$cut/$style
  stitcher_tokens "$expdir/pairs/tokens" "$datadir/train_single/text" "$stitcher_token_type" "$stitcher_vocab_size" || return 1
  if [[ " ${mixing[*]} " == *' train_simulated '* ]]; then
    stitcher_first "$style" "$cut" "$pairs" || return 1
    first=("$expdir/first/$cut/$style/valid.acc.ave.pth")
  fi
  for set in train_stitch dev-short dev-long; do
    stitcher_pairs "$pairs/$set" "$style" "$expdir/heard/$cut/$set/hypotheses.jsonl" "$(references_of "$set")" \
      "$expdir/pairs/tokens" || return 1
  done
  mkdir -p "$pairs/dev"
  for file in src_text text; do # several systems may be at it at once
    sort "$pairs/dev-short/$file" "$pairs/dev-long/$file" >"$pairs/dev/$file.$1.$2" || return 1
    mv "$pairs/dev/$file.$1.$2" "$pairs/dev/$file" || return 1
  done
  stitcher_config "$style" "$expdir/configs/$1.yaml" || return 1
  stitcher_train "$expdir/$1/seed$2" "$expdir/configs/$1.yaml" "$style" "$pairs/train_stitch" "$pairs/dev" "$expdir/pairs/tokens" "$2" \
    "${first[@]+"${first[@]}"}"
}

# What all stitchers of a style and cut begin with: one trained on simulated errors.
#   stitcher_first STYLE CUT PAIRS_DIR
stitcher_first() {
  local set references hypotheses config=$expdir/configs/stitcher_$1_first.yaml
  for set in train_simulated dev_simulated; do
    references=$datadir/$set/references.json hypotheses=$expdir/pairs/$2/$set.jsonl
    simulate_hypotheses "$hypotheses" "$references" "$(overlap_of "$2")" || return 1
    stitcher_pairs "$3/$set" "$1" "$hypotheses" "$references" "$expdir/pairs/tokens" || return 1
  done
  stitcher_config "$1" "$config" "conf/scale/$scale/stitcher_first.yaml" || return 1
  stitcher_train "$expdir/first/$2/$1" "$config" "$1" "$3/train_simulated" "$3/dev_simulated" "$expdir/pairs/tokens" 1
}

# stitch_system SYSTEM SEED
stitch_system() {
  local set heard output=$expdir/$1/seed$2/decode_default hypotheses=() transcripts=() inputs=() trained=()
  heard=$expdir/heard/$(training_set "$1")
  if is_trained "$1"; then trained=(--model "$expdir/$1/seed$2" --ngpu "$gpu"); fi
  for set in "${test_sets[@]}"; do
    hypotheses+=("$heard/$set/hypotheses.jsonl") transcripts+=("$output/$set/transcripts.json")
    inputs+=(--input "${hypotheses[-1]}" --output "${transcripts[-1]}")
  done
  step --name "stitch by $1/seed$2" --log "$output/log/stitch.log" "${inputs[@]}" -- \
    "$python" -m espnet_ext.bin.stitch merge --hypotheses "${hypotheses[@]}" --method "$(method_of "$1")" \
    "${trained[@]+"${trained[@]}"}" --output "${transcripts[@]}" || return 1
  for set in "${test_sets[@]}"; do score_transcripts "$set" "$output/$set" || return 1; done
}

# SA-WER of a set's transcripts; of LibriCSS by condition too.
#   score_transcripts SET OUTPUT_DIR
score_transcripts() {
  local groups=()
  if [[ $1 == libricss ]]; then groups=(--groups "$datadir/libricss/segments/groups"); fi
  step --name "score ${2#"$expdir"/}" --log "$2/log/score.log" --input "$2/transcripts.json" --output "$2/score.json" -- \
    "$python" -m espnet_ext.bin.score sa --ref "$(references_of "$1")" --hyp "$2/transcripts.json" "${groups[@]+"${groups[@]}"}" \
    --output "$2" || return 1
  say "$(grep SA-WER "$2/log/score.log")"
}
