# shellcheck shell=bash disable=SC2034
# Stages 1 and 2: speaker profiles, mixtures, LibriCSS. It reads the settings of run.sh and of the scale, and sets
#
#   parts           LibriSpeech's parts            librispeech_dir, libricss_dir   the corpora; the latter may be empty
#   mixture_sets    the test sets of mixtures      test_sets                       these, and libricss where there is one
#
# $datadir/<set> is each set's data dir, $profiles_dir/<set>/ has profiles, and enrolment: the utterances behind them.
: "${python:?}" "${datadir:?}" "${expdir:?}" "${corpus:?}" "${nj:?}" "${scale:?}" "${table:?}"
: "${train_parts:?}" "${speeds[*]-}" "${mixing[*]:?}" "${train_enrolment:?}" "${window:?}" "${librispeech=}" "${libricss=}" "${enrolment_list=}"
: "${recogniser:?}" "${speaker_model=}" "${speaker_model_config=}"
librispeech_dir=$librispeech libricss_dir=$libricss
if [[ -z $librispeech ]]; then
  librispeech_dir=$corpus/LibriSpeech
  libricss_dir=${libricss:-$corpus/LibriCSS}
fi

# Profiles by a speaker model of ESPnet. They lie in a folder that is named after its sum, so that what is trained with others is not
# taken for trained with these.
choose_speaker_model() {
  local file
  [[ -n $speaker_model ]] || die "--speaker_model_config needs --speaker_model, the parameters"
  speaker_model_config=${speaker_model_config:-${speaker_model%/*}/config.yaml}
  for file in "$speaker_model" "$speaker_model_config"; do
    [[ -f $file ]] || die "--speaker_model: there is no file $file; name a checkpoint and, if it is not beside it, --speaker_model_config"
  done
  if grep -q '^speaker_encoder: d_vectors' "conf/sa_asr_$recogniser.yaml"; then
    die "--speaker_model: the recogniser $recogniser hears speakers by Resemblyzer's network and needs its profiles; add --recogniser conformer"
  fi
  profiles_dir+=-$(sha256sum <"$speaker_model" | cut -c 1-8)
  speaker_model_options=(--model "$speaker_model" --model-config "$speaker_model_config")
  profiles_overlay=("$profiles_dir/train/recogniser.yaml") # how many dimensions they have
}

parts=("${train_parts[@]}" dev-clean test-clean)
mixture_sets=(dev-short dev-long test-short test-long)
train_sources=("${train_parts[@]}")
if ((${#speeds[@]})); then train_sources+=("${train_parts[@]/#/voices-}"); fi
test_sets=("${mixture_sets[@]}")
if [[ -n $libricss_dir ]]; then test_sets+=(libricss); fi
# Table 1 is written in stage 2, and Table 4 needs LibriCSS.
if [[ $table == 1 ]]; then
  table=2 rows="" stop_stage=$((stop_stage < 2 ? stop_stage : 2))
fi
if [[ -z $libricss_dir ]]; then
  case ,$table, in
    *,4,*) die "Table 4 needs --libricss DIR; README.md says what it holds" ;;
    ,all,) table=1,2,3 ;;
  esac
fi
profiles_dir=$datadir/profiles
speaker_model_options=() profiles_overlay=()
if [[ -n $speaker_model || -n $speaker_model_config ]]; then choose_speaker_model; fi
inventory_size=8 # P4, 4.2: eight speakers a session of LibriCSS; as many profiles for mixtures, those of absent speakers among them

# LibriCSS: manifests, the first channel cut at silences, and who is enrolled with what in each session.
prepare_libricss() {
  local list=${enrolment_list:-$libricss_dir/speaker_enrollment/libricss_speaker_info.jsonl}
  list_files "$datadir/log/libricss_files.txt" "$libricss_dir"
  step --name "LibriCSS" --log "$datadir/log/libricss.log" --input "$datadir/log/libricss_files.txt" --input "$list" \
    --output "$datadir/libricss/segments/inventory" -- \
    "$python" -m espnet_ext.bin.prepare_corpus libricss --corpus "$libricss_dir" --output "$datadir/libricss" --enrolment-list "$list"
}

# Training draws two of several enrolment utterances anew each time; who is to be recognised has two. One command loads the
# model once, and leaves profiles alone that are made.
make_profiles() {
  local sets=$datadir/log/profiles.sets part set inputs=()
  {
    profile_set train --utterances "$train_enrolment" --data "${train_sources[@]/#/$datadir/}" "$datadir/dev-clean"
    profile_set test --utterances 2 --data "$datadir/dev-clean" "$datadir/test-clean"
    if [[ -n $libricss_dir ]]; then
      profile_set libricss --enrolment "$datadir/libricss/segments/enrolment" --data "$datadir/test-clean"
    fi
  } >"$sets"
  for part in "${train_sources[@]}" dev-clean test-clean; do
    inputs+=(--input "$datadir/$part/wav.scp" --input "$datadir/$part/utt2spk")
  done
  if [[ -n $libricss_dir ]]; then
    inputs+=(--input "$datadir/libricss/segments/enrolment" --output "$profiles_dir/libricss/profiles.scp")
  fi
  for set in train test; do inputs+=(--output "$profiles_dir/$set/profiles.scp"); done
  step --name profiles --log "$profiles_dir/log/profiles.log" "${inputs[@]}" -- \
    "$python" -m espnet_ext.bin.speaker_profiles "${speaker_model_options[@]+"${speaker_model_options[@]}"}" --sets "$sets"
}

# A line of a file of sets.
#   profile_set SET OPTION...
profile_set() {
  printf '%q ' --output "$profiles_dir/$1" "${@:2}"
  echo
}

# The profiles with which a set is recognised.
profiles_of() {
  case $1 in
    train* | dev_sa) echo train ;;
    libricss) echo libricss ;;
    *) echo test ;;
  esac
}

# The sources of a set of mixtures: LibriSpeech's parts, and where there are few speakers, the voices made of them.
sources_of() {
  case $1 in
    train*) printf '%s\n' "${train_sources[@]}" ;;
    dev*) echo dev-clean ;;
    test*) echo test-clean ;;
  esac
}

# More voices to learn from, for a corpus of few speakers: those of its training set at other speeds.
make_voices() {
  local part
  ((${#speeds[@]})) || return 0
  for part in "${train_parts[@]}"; do
    step --name "voices of $part" --log "$datadir/voices-$part/log/speed.log" --input "$datadir/$part/text" \
      --input "$datadir/$part/wav.scp" --output "$datadir/voices-$part/recordings.jsonl.gz" --nokey "--nj $nj" -- \
      "$python" -m espnet_ext.bin.perturb_speed --data "$datadir/$part" --factors "${speeds[@]}" --output "$datadir/voices-$part" {} ||
      return 1
  done
}

# The manifests of a source.
#   manifest SOURCE recordings|supervisions
manifest() {
  if [[ $1 == voices-* ]]; then echo "$datadir/$1/$2.jsonl.gz"; else echo "$datadir/manifests/librispeech_$2_$1.jsonl.gz"; fi
}

# The name of a set, with which the ids of its mixtures begin.
prefix_of() {
  case $1 in
    train_stitch) echo train ;;
    *) echo "${1/-/ }" ;;
  esac
}

# What a set of mixtures is made of, as options, a word a line.
mixture_options() {
  local part recordings=() supervisions=()
  while read -r part; do
    recordings+=("$(manifest "$part" recordings)")
    supervisions+=("$(manifest "$part" supervisions)")
  done <<<"$(sources_of "$1")"
  printf '%s\n' --recordings "${recordings[@]}" --supervisions "${supervisions[@]}"
  # all that training has is heard in training; elsewhere nobody is recognised by the very utterances of the profile
  if [[ $1 != train* ]]; then printf '%s\n' --leave-out "$profiles_dir/$(profiles_of "$1")/enrolment"; fi
}

# Mixtures: those that the recogniser is trained on, first single utterances; those that stitchers are trained on; the test sets.
# The array mixing holds the sets with their options. One command reads the sources once, and leaves sets alone that are made.
make_mixtures() {
  local sets=$datadir/log/mixtures.sets line set part options inputs=()
  for line in "${mixing[@]}"; do
    set=${line%% *}
    mapfile -t options < <(mixture_options "$set")
    printf '%q ' --output "$datadir/$set" --name "$(prefix_of "$set")" "${options[@]}"
    echo "${line#* }"
    inputs+=(--output "$datadir/$set/text")
  done >"$sets"
  for part in "${train_sources[@]}" dev-clean test-clean; do
    inputs+=(--input "$(manifest "$part" recordings)" --input "$(manifest "$part" supervisions)")
  done
  for set in train test; do inputs+=(--input "$profiles_dir/$set/enrolment"); done
  step --name mixtures --log "$datadir/log/mixtures.log" "${inputs[@]}" --nokey "--nj $nj" -- \
    "$python" -m espnet_ext.bin.mixtures --sets "$sets" {} || return 1
  for line in "${mixing[@]}"; do
    set=${line%% *}
    [[ $set == train_stitch || $set != *_* ]] || continue # the recogniser's training draws inventories anew each time
    step --name "inventories of $set" --log "$datadir/$set/log/inventory.log" --input "$datadir/$set/text_speakers" \
      --input "$profiles_dir/$(profiles_of "$set")/profiles.scp" --output "$datadir/$set/inventory" -- \
      "$python" -m espnet_ext.bin.inventories --speakers "$datadir/$set/text_speakers" \
      --profiles "$profiles_dir/$(profiles_of "$set")/profiles.scp" --size "$inventory_size" --output "$datadir/$set/inventory" ||
      return 1
  done
}

# Mixtures of the recogniser's training, cut as windows cut recordings.
cut_training_mixtures() {
  step --name "train_windows" --log "$datadir/train_windows/log/cuts.log" --input "$datadir/train_sa/text" \
    --input "$datadir/train_sa/references.json" --output "$datadir/train_windows/text" --nokey "--nj $nj" -- \
    "$python" -m espnet_ext.bin.cut_mixtures --data "$datadir/train_sa" --output "$datadir/train_windows" --window "$window" \
    --share 0.67 --seed 11 {}
}

# Table 1 of P4: the mixtures' counts, the paper's beside.
table1() {
  local set files=() sets=(train_stitch "${mixture_sets[@]}")
  for set in "${sets[@]}"; do files+=(--input "$datadir/$set/references.json" --output "$expdir/mixtures_$set/samples.json"); done
  step --name "counts of mixtures" --log "$expdir/results/log/counts.log" "${files[@]}" -- \
    "$python" -m espnet_ext.bin.count_mixtures --data "${sets[@]/#/$datadir/}" --output "${sets[@]/#/$expdir/mixtures_}" || return 1
  write_table 1
}
