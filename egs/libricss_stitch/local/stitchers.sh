# shellcheck shell=bash
# Training of stitchers. Source it after stages.sh and systems.sh; it reads the settings of run.sh.
: "${python:?}" "${expdir:?}" "${scale:?}" "${ngpu:?}" "${window:?}" "${tables:?}"

# The config of a style (wc, wco_wce or alignment): the paper's, with what the style does otherwise and the scale's overlays.
#   stitcher_config STYLE OUTPUT [OVERLAY]...
stitcher_config() {
  "${tables[@]}" merge --config conf/stitcher.yaml --overlay "conf/stitcher_$1.yaml" "conf/scale/$scale/stitcher.yaml" "${@:3}" \
    --output "$2" >/dev/null
}

# Word pieces of all stitchers, from the words that they are to write.
#   stitcher_tokens OUTPUT_DIR TEXT TOKEN_TYPE VOCAB_SIZE
stitcher_tokens() {
  step --name "tokens of the stitchers" --log "$1/log/tokens.log" --input "$2" --output "$1/bpe.model" -- \
    "$python" -m espnet_ext.bin.tokens --text "$2" --token-type "$3" --vocab-size "$4" \
    --symbols '<wc>' '<wco>' '<wce>' '<gap>' --output "$1"
}

# What a stitcher of a style reads and is to write, of hypotheses of windows and the reference (SegLST).
#   stitcher_pairs OUTPUT_DIR STYLE HYPOTHESES REFERENCES TOKENS_DIR
stitcher_pairs() {
  step --name "pairs ${1#"$expdir"/}" --log "$1/log/pairs.log" --input "$3" --input "$4" --input "$5/bpe.model" \
    --output "$1/stitcher.json" -- \
    "$python" -m espnet_ext.bin.stitch text --hypotheses "$3" --references "$4" --style "$2" --bpemodel "$5/bpe.model" \
    --output "$1"
}

# What a recogniser might have heard of references with times, windows cut as it cuts them.
#   simulate_hypotheses OUTPUT REFERENCES OVERLAP
simulate_hypotheses() {
  step --name "simulated hypotheses ${1#"$expdir"/}" --log "${1%/*}/log/$(basename "$1" .jsonl).log" --input "$2" --output "$1" -- \
    "$python" -m espnet_ext.bin.stitch simulate --references "$2" --window "$window" --window-overlap "$3" --output "$1"
}

# Train a stitcher to its end, or further from its last epoch. It begins with the parameters of a checkpoint, where one is given.
#   stitcher_train SYSTEM_DIR CONFIG STYLE TRAIN_PAIRS VALID_PAIRS TOKENS_DIR SEED [CHECKPOINT]
stitcher_train() {
  local stats=$4/stats options data=() text part first=()
  if [[ -n ${8-} ]]; then first=(--init_param "$8"); fi
  options=(--config "$2" --token_list "$6/tokens.txt" --token_type bpe --bpemodel "$6/bpe.model"
    --src_token_list "$6/tokens.txt" --src_token_type "$(if [[ $3 == alignment ]]; then echo word; else echo bpe; fi)"
    --src_bpemodel "$6/bpe.model")
  for text in src_text text; do
    data+=(--train_data_path_and_name_and_type "$4/$text,$text,text" --valid_data_path_and_name_and_type "$5/$text,$text,text")
  done
  step --name "statistics of ${4#"$expdir"/}" --log "$stats/log/stats.log" --output "$stats/train/src_text_shape" \
    --input "$4/stitcher.json" --input "$4/src_text" --input "$5/src_text" --input "$6/bpe.model" -- \
    "$python" -m espnet_ext.bin.mt_train --collect_stats true --ngpu 0 --output_dir "$stats" "${options[@]}" "${data[@]}" \
    --train_shape_file "$4/text" --valid_shape_file "$5/text" || return 1
  for part in train valid; do
    for text in src_text text; do data+=("--${part}_shape_file" "$stats/$part/${text}_shape"); done
  done
  step --name "train ${1#"$expdir"/}" --log "$1/log/train.log" --progress asr_train_progress --resumes "$1" \
    --input "$4/text" --input "$5/text" --input "$stats/train/src_text_shape" --input "$stats/valid/src_text_shape" \
    --output "$1/config.yaml" --prefix "${train_cmd[*]-}" ${8+--input "$8"} --nokey "--ngpu $ngpu ${train_cmd_options[*]-}" -- \
    "$python" -m espnet_ext.bin.mt_train {} --output_dir "$1" --seed "$7" --resume true "${options[@]}" "${data[@]}" "${first[@]+"${first[@]}"}" || return 1
  cp "$4/stitcher.json" "$1"
}
