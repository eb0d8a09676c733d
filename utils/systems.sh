# shellcheck shell=bash
# The systems of a recipe's conf/tables.yaml, from their configs to their tables: what is alike in the run.sh of all recipes.
# Source it after recipe.sh, with the settings of run.sh (scale, table, rows, seed, nj, ngpu, parallel).
# The data dir of a training set of several parts is called a+b, where conf/tables.yaml says `train: [a, b]`.
: "${python:?}" "${expdir:?}" "${lm_dir:?}" "${nj:?}" "${ngpu:?}" "${parallel=}" "${scale:?}" "${table:?}" "${rows=}" "${seed:?}" "${corpus_name:?}" "${command_line:?}"

tables=("$python" -m espnet_ext.bin.table)
selection=(--tables conf/tables.yaml --scale "$scale" --table "$table" ${rows:+--rows "$rows"})
plan=$("${tables[@]}" plan "${selection[@]}") || exit 1
decodings=$("${tables[@]}" decodings "${selection[@]}") || exit 1
seeds=${seed//,/ }

# The paper's own config of a system, such as conf/train.yaml.
paper_config() { awk -F '\t' -v name="$1" '$1 == name {print $2}' <<<"$plan"; }

# The config of a system: the paper's own with the scale's overlay of the same name, then the system's own overrides.
system_config() {
  local config
  config=$(paper_config "$1")
  "${tables[@]}" train-config --tables conf/tables.yaml --scale "$scale" --system "$1" --overlay "conf/scale/$scale/${config##*/}" \
    --output "$expdir/configs/$1.yaml" >/dev/null
}

# A config of the recipe with the scale's overlay of the same name, and others of which the later ones win.
#   scale_config NAME OUTPUT [OVERLAY]...
scale_config() {
  "${tables[@]}" merge --config "conf/$1.yaml" --overlay "conf/scale/$scale/$1.yaml" "${@:3}" --output "$2" >/dev/null
}

# The config of a decoding.
decode_config() {
  "${tables[@]}" decode-config --tables conf/tables.yaml --scale "$scale" --decoding "$1" --config conf/decode.yaml \
    --overlay "conf/scale/$scale/decode.yaml" --output "$expdir/configs/decode_$1.yaml" >/dev/null
}

# Does a decoding use lm_weight, or prior_weight?
#   uses WEIGHT DECODING
uses() {
  awk -v key="$1:" '$1 == key && $2 > 0 {found = 1} END {exit !found}' "$expdir/configs/decode_$2.yaml"
}

# The decodings of these rows that use a language model, a line each.
lm_decodings() {
  local decoding
  while read -r decoding; do
    [[ -n $decoding ]] || continue
    decode_config "$decoding" || return 1
    if uses lm_weight "$decoding"; then echo "$decoding"; fi
  done <<<"$(cut -f 2 <<<"$decodings" | sort -u)"
}

# The data dir that a system is trained on, and each one that the plan needs with the first system that needs it.
training_set() { awk -F '\t' -v name="$1" '$1 == name {gsub(" ", "+", $3); print $3}' <<<"$plan"; }
training_sets() { awk -F '\t' 'NF {gsub(" ", "+", $3)} !seen[$3]++ {printf "%s\t%s\n", $3, $1}' <<<"$plan"; }

# Jobs of a stage, systems and seeds, a line each; none if the plan is empty, as that of tables for which nothing is trained.
train_jobs() {
  local name number
  while IFS=$'\t' read -r name _; do
    [[ -n $name ]] || continue
    for number in $seeds; do printf '%s\t%s\n' "$name" "$number"; done
  done <<<"$plan"
}

# How many jobs of a stage run side by side here: one with a GPU or a cluster, which they share.
side_by_side() {
  local jobs
  jobs=$("$1" | wc -l)
  if ((ngpu > 0)) || [[ -n $2 ]]; then echo 1; else echo $((jobs < nj ? jobs : nj)); fi
}

# Call FUNCTION with each system and seed of the plan, several at a time.
#   each_system FUNCTION
each_system() { run_jobs "$(side_by_side train_jobs '')" "$1" <<<"$(train_jobs)"; }

# Call the recipe's decode_system SYSTEM SEED with each of them; `decoders` says how many share the processes of this machine.
decode_systems() {
  local decoders
  decoders=$(side_by_side train_jobs "$parallel")
  run_jobs "$decoders" decode_system <<<"$(train_jobs)"
}

# Call the recipe's score_system SYSTEM SEED with each of them.
score_systems() { run_jobs 1 score_system <<<"$(train_jobs)"; }

# Write and print the tables of this run; or one table whole, whatever this run is to make.
write_tables() { write_selected "${selection[@]}"; }
write_table() { write_selected --tables conf/tables.yaml --scale "$scale" --table "$1"; }
write_selected() {
  "${tables[@]}" write "$@" --expdir "$expdir" --corpus "$corpus_name" --command "$command_line" \
    --lm-perplexity "$lm_dir/perplexity/ppl"
}
