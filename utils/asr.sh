# shellcheck shell=bash
# ESPnet's stages as functions, shared by the recipes. Source it after stages.sh, in a recipe's folder, with these settings:
#
#   datadir   where the Kaldi data dirs lie       expdir   where systems and results go
#   nj        processes on this machine           ngpu     GPUs of one training
#   parallel  a YAML of conf/parallel, or empty   python   the interpreter
#   corpus, corpus_size   the synthetic corpus    check_audio   how audio is checked
#
#   tokens_dir, stats_dir, lm_dir   where tokens, statistics and the language model go
#   asr_task   sa_asr where the models are speaker-attributed; empty for ESPnet's own task
#
# and, from cmd.sh, the arrays train_cmd (what starts a training, such as srun) and train_cmd_options (ESPnet's flags).
: "${python:?}" "${datadir:?}" "${expdir:?}" "${tokens_dir=}" "${stats_dir:?}" "${lm_dir:?}" "${nj:?}" "${ngpu:?}" "${parallel=}" "${asr_task=}" "${token_symbols[*]-}"
: "${corpus:?}" "${corpus_size=}" "${check_audio:?}"

# List the files below folders: a file that is added, mended or replaced puts out of date what depends on the list.
#   list_files LIST FOLDER...
list_files() {
  mkdir -p "${1%/*}"
  find -L "${@:2}" -type f -printf '%p %s %T@\n' 2>/dev/null | sort >"$1" || true
}

# joined SEPARATOR WORD...
joined() {
  local IFS=$1
  echo "${*:2}"
}

# The synthetic corpus of a recipe.
#   synthetic_corpus CORPUS
synthetic_corpus() {
  step --name "synthetic corpus" --log "$datadir/log/corpus.log" --nokey "--nj $nj" -- \
    "$python" -m espnet_ext.bin.make_mini --corpus "$1" --size "$corpus_size" --output "$corpus" {}
}

# Check a corpus and make its manifests, in $datadir/manifests; they are made again when a file below the FOLDERs changes.
#   corpus_manifests TITLE LOG FOLDER... -- CORPUS [OPTION]...
corpus_manifests() {
  local title=$1 log=$datadir/log/$2 folders=()
  shift 2
  while [[ $1 != -- ]]; do
    folders+=("$1")
    shift
  done
  list_files "${log}_files.txt" "${folders[@]}"
  step --name "manifests of $title" --log "$log.log" --input "${log}_files.txt" --output "$datadir/manifests" --nokey "--nj $nj" -- \
    "$python" -m espnet_ext.bin.prepare_corpus "${@:2}" --output "$datadir/manifests" --check-audio "$check_audio" {}
}

# Data dirs of a corpus's parts from the Lhotse manifests in $datadir/manifests; SET is the name of a part's data dir, by
# default its own. With several corpora format_log tells their logs apart.
#   asr_format CORPUS PART[=SET]...
asr_format() {
  local corpus=$1 part manifests=() outputs=() folders=()
  shift
  for part; do
    manifests+=(--recordings "$datadir/manifests/${corpus}_recordings_${part%%=*}.jsonl.gz")
    manifests+=(--supervisions "$datadir/manifests/${corpus}_supervisions_${part%%=*}.jsonl.gz")
    folders+=("$datadir/${part#*=}")
    outputs+=(--output "$datadir/${part#*=}/text")
  done
  step --name "data dirs${format_log:+ of $corpus}" --log "$datadir/log/${format_log:-format}.log" --input "${manifests[1]}" \
    "${outputs[@]}" -- "$python" -m espnet_ext.bin.data_dir from-manifests "${manifests[@]}" "${folders[@]}"
}

# One data dir of several, all of them in $datadir; the source's name is appended to its ids.
#   asr_combine SET SOURCE...
asr_combine() {
  local set=$1 source inputs=()
  shift
  for source; do inputs+=(--input "$datadir/$source/wav.scp" --input "$datadir/$source/text"); done
  step --name "data dir $set" --log "$datadir/log/format_$set.log" "${inputs[@]}" --output "$datadir/$set/text" -- \
    "$python" -m espnet_ext.bin.data_dir combine --suffix-source "$datadir/$set" "${@/#/$datadir/}"
}

# Word pieces (or characters, words) of a training set, in $tokens_dir. With the type mixed: its Han characters, and word
# pieces of the English sets. token_normalisation is sentencepiece's rule, its own default if empty; the words in the array
# token_symbols, such as <sc>, are one token each.
#   asr_tokens TRAIN_SET TOKEN_TYPE VOCAB_SIZE [ENGLISH_SET]...
asr_tokens() {
  local train=$1 token_type=$2 vocab_size=$3 set inputs=() english=()
  shift 3
  for set in "$@"; do
    inputs+=(--input "$datadir/$set/text")
    english+=("$datadir/$set/text")
  done
  step --name tokens --log "$tokens_dir/log/tokens.log" --input "$datadir/$train/text" "${inputs[@]+"${inputs[@]}"}" \
    --output "$tokens_dir/prior.txt" -- \
    "$python" -m espnet_ext.bin.tokens --text "$datadir/$train/text" --token-type "$token_type" --vocab-size "$vocab_size" \
    ${token_normalisation:+--normalisation "$token_normalisation"} --output "$tokens_dir" \
    ${english[@]+--english-text "${english[@]}"} ${token_symbols[@]+--symbols "${token_symbols[@]}"}
}

# The options by which ESPnet's commands find the tokens in $tokens_dir.
#   mapfile -t options < <(asr_token_options TOKEN_TYPE)
asr_token_options() {
  printf '%s\n' --token_list "$tokens_dir/tokens.txt"
  if [[ $1 == bpe || $1 == unigram || $1 == mixed ]]; then
    printf '%s\n' --token_type bpe --bpemodel "$tokens_dir/bpe.model"
  else
    printf '%s\n' --token_type "$1"
  fi
}

# Lengths, and mean and variance of the features, in $stats_dir/TRAIN_SET.
#   asr_stats CONFIG TRAIN_SET VALID_SET TOKEN_TYPE
asr_stats() {
  local options stats=$stats_dir/$2
  mapfile -t options < <(asr_token_options "$4")
  step --name "statistics of $2" --log "$stats/log/stats.log" --nokey "$(asr_jobs)" --output "$stats/train/feats_stats.npz" \
    --input "$datadir/$2/wav.scp" --input "$datadir/$2/text" --input "$datadir/$3/wav.scp" --input "$datadir/$3/text" -- \
    "$python" -m espnet_ext.bin.collect_stats ${asr_task:+--task "$asr_task"} --train "$datadir/$2" --valid "$datadir/$3" --config "$1" \
    --token-list "$tokens_dir/tokens.txt" --output "$stats" {} -- "${options[@]:2}"
}

# How work over shards is spread: words of the command line that change no result.
#   asr_jobs [JOBS]
asr_jobs() { printf -- '--nj %s' "${1:-$nj}${parallel:+ --parallel $parallel}"; }

# A training as a step: to its end, or further from what DIR holds of a killed one. {} in the command are the flags of cmd.sh.
#   train_step DIR [SETTING]... -- COMMAND...
train_step() {
  step --name "train ${1#"$expdir"/}" --log "$1/log/train.log" --progress asr_train_progress --resumes "$1" \
    --prefix "${train_cmd[*]-}" --nokey "--ngpu $ngpu ${train_cmd_options[*]-}" "${@:2}"
}

# Train one system.
#   asr_train SYSTEM_DIR CONFIG TRAIN_SET VALID_SET TOKEN_TYPE SEED [OPTION]...
asr_train() {
  local options stats=$stats_dir/$3
  mapfile -t options < <(asr_token_options "$5")
  options+=("${@:7}")
  train_step "$1" --input "$datadir/$3/text" --input "$datadir/$4/text" --input "$stats/train/feats_stats.npz" \
    --input "$stats/train/speech_shape" --output "$1/config.yaml" -- \
    "$python" -m "espnet_ext.bin.${asr_task:-asr}_train" {} --config "$2" --output_dir "$1" --seed "$6" --resume true "${options[@]}" \
    --normalize_conf "stats_file=$stats/train/feats_stats.npz" \
    --train_data_path_and_name_and_type "$datadir/$3/wav.scp,speech,sound" \
    --train_data_path_and_name_and_type "$datadir/$3/text,text,text" \
    --valid_data_path_and_name_and_type "$datadir/$4/wav.scp,speech,sound" \
    --valid_data_path_and_name_and_type "$datadir/$4/text,text,text" \
    --train_shape_file "$stats/train/speech_shape" --valid_shape_file "$stats/valid/speech_shape"
}

# Epoch, batch, loss and accuracy of a training log in one short line.
asr_train_progress() {
  tail -c 20000 "$1" | grep -oE '[0-9]+epoch:train:[0-9]+-[0-9]+batch.*' | tail -n 1 | awk -F ': |, ' '{
    split($1, number, /[^0-9]+/)
    printf "epoch %d, batch %d", number[1], number[3]
    for (i = 2; i <= NF; i++) if ($i ~ /^(loss|acc)=/) printf ", %s", $i
  }'
}

# The name of the checkpoint that is the mean of epochs, WHICH being best:N (by the accuracy on the dev set) or last:N.
#   asr_averaged WHICH
asr_averaged() { printf '%s.ave.pth' "${1/:/}"; }

# Average epochs of a training.
#   asr_average SYSTEM_DIR WHICH
asr_average() {
  step --name "average ${1#"$expdir"/} ($2)" --log "$1/log/average_${2/:/}.log" --input "$1/checkpoint.pth" \
    --output "$1/$(asr_averaged "$2")" -- \
    "$python" -m espnet_ext.bin.average --dir "$1" --output "$1/$(asr_averaged "$2")" "--${2%%:*}" "${2#*:}"
}

# Layer-wise pre-training of a system: each step starts with what the one before has learnt. Leaves the config of the
# training itself in SYSTEM_DIR/pretrain/configs/final.yaml, its initial parameters in SYSTEM_DIR/pretrain/final.pth.
#   asr_pretrain SYSTEM_DIR CONFIG SETTINGS TRAIN_SET VALID_SET TOKEN_TYPE SEED
# SETTINGS are YAML files, split at blanks, of which the later ones win.
asr_pretrain() {
  local dir=$1/pretrain steps name config settings before='' init=()
  read -ra settings <<<"$3"
  steps=$("$python" -m espnet_ext.bin.pretrain plan --config "$2" --settings "${settings[@]}" --output "$dir/configs") ||
    return 1
  while IFS=$'\t' read -r name config; do
    if [[ -n $before ]]; then
      step --name "carry over to ${dir#"$expdir"/}/$name" --log "$dir/log/$name.log" --output "$dir/$name.pth" \
        --input "$before/latest.pth" -- "$python" -m espnet_ext.bin.pretrain carry --model "$before/latest.pth" \
        --model-config "$before/config.yaml" --config "$config" --seed "$7" --output "$dir/$name.pth" || return 1
      init=(--init_param "$dir/$name.pth")
    fi
    [[ $name != final ]] || break
    asr_train "$dir/$name" "$config" "$4" "$5" "$6" "$7" "${init[@]+"${init[@]}"}" || return 1
    before=$dir/$name
  done <<<"$steps"
}

# Decode test sets with one system by one or several decodings, each the config $expdir/configs/decode_<decoding>.yaml, in
# one command that loads the models once. Results go to SYSTEM_DIR/decode_<decoding>/<test set>.
#   asr_decode JOBS SYSTEM_DIR MODEL_FILE DECODINGS TEST_SETS [OPTION]...
# DECODINGS and TEST_SETS are lists, split at blanks.
asr_decode() {
  local jobs=$1 system=$2 model=$3 set sets name names inputs=() configs=() outputs=()
  read -ra names <<<"$4"
  read -ra sets <<<"$5"
  shift 5
  for set in "${sets[@]}"; do inputs+=(--input "$datadir/$set/wav.scp"); done
  for name in "${names[@]}"; do
    configs+=("$expdir/configs/decode_$name.yaml")
    for set in "${sets[@]}"; do outputs+=("$system/decode_$name/$set"); done
  done
  for set in "${outputs[@]}"; do inputs+=(--output "$set/text"); done
  step --name "decode ${system#"$expdir"/} (${names[*]})" --log "$system/decode_${names[0]}/log/decode.log" \
    "${inputs[@]}" --nokey "$(asr_jobs "$jobs") --ngpu $((ngpu > 0 ? 1 : 0))" -- \
    "$python" -m espnet_ext.bin.decode --model-config "$system/config.yaml" --model "$system/$model" \
    --config "${configs[@]}" --data "${sets[@]/#/$datadir/}" --output "${outputs[@]}" {} "$@"
}

# Word error rate of a decoding, or with RATE mer the mixed one of Mandarin-English.
#   asr_score TEST_SET OUTPUT_DIR [RATE] [OPTION]...
asr_score() {
  step --name "score ${2#"$expdir"/}" --log "$2/log/score.log" --output "$2/score.json" -- \
    "$python" -m espnet_ext.bin.score "${3:-wer}" --ref "$datadir/$1/text" --hyp "$2/text" --utt2spk "$datadir/$1/utt2spk" --output "$2" \
    "${@:4}"
}

# Train a language model in $lm_dir on a text file (one sentence a line, plain or .gz) and measure its perplexity on a
# Kaldi text file, which also says when to stop.
#   asr_lm CONFIG TRAIN_TEXT VALID_TEXT TOKEN_TYPE SEED
asr_lm() {
  local options data text=$lm_dir/train.txt name="language model"
  mapfile -t options < <(asr_token_options "$4")
  data=(--train_data_path_and_name_and_type "$text,text,text" --valid_data_path_and_name_and_type "$3,text,text")
  step --name "$name: text" --log "$lm_dir/log/text.log" --output "$text" -- \
    "$python" -m espnet_ext.bin.lm_text --text "$2" --output "$text" || return 1
  step --name "$name: statistics" --log "$lm_dir/log/stats.log" -- \
    "$python" -m espnet_ext.bin.lm_train --collect_stats true --config "$1" --output_dir "$lm_dir/stats" --ngpu 0 \
    "${options[@]}" "${data[@]}" --train_shape_file "$text" --valid_shape_file "$3" || return 1
  train_step "$lm_dir" --name "$name: training" --input "$lm_dir/stats/train/text_shape" -- \
    "$python" -m espnet_ext.bin.lm_train {} --config "$1" --output_dir "$lm_dir" --seed "$5" --resume true \
    "${options[@]}" "${data[@]}" \
    --train_shape_file "$lm_dir/stats/train/text_shape" --valid_shape_file "$lm_dir/stats/valid/text_shape" || return 1
  step --name "$name: perplexity" --log "$lm_dir/log/perplexity.log" --input "$lm_dir/config.yaml" -- \
    "$python" -m espnet2.bin.lm_calc_perplexity --ngpu 0 --data_path_and_name_and_type "$3,text,text" \
    --train_config "$lm_dir/config.yaml" --model_file "$lm_dir/valid.loss.ave.pth" --output_dir "$lm_dir/perplexity" ||
    return 1
  say "$name: perplexity of a token of ${3#"$datadir"/}: $(<"$lm_dir/perplexity/ppl")"
}
