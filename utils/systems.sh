# shellcheck shell=bash
# The systems of a recipe's conf/tables.yaml, from their configs to their tables: what is alike in the run.sh of all recipes.
# Source it after stages.sh, with the settings of run.sh (scale, table, rows, seed, nj, ngpu, parallel).
# The data dir of a training set of several parts is called a+b, where conf/tables.yaml says `train: [a, b]`.
: "${python:?}" "${expdir:?}" "${nj:?}" "${ngpu:?}" "${parallel=}" "${scale:?}" "${table:?}" "${rows=}" "${seed:?}"
[[ $seed =~ ^[0-9]+(,[0-9]+)*$ ]] || die "--seed takes whole numbers separated by commas, not '$seed'"
((nj >= 1)) || die "--nj must be at least 1"
((ngpu >= 0)) || die "--ngpu must be at least 0"
[[ -z $parallel || -f $parallel ]] || die "--parallel: there is no file $parallel"

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

# A config of the recipe with the scale's overlay of the same name.
#   scale_config NAME OUTPUT
scale_config() {
  "${tables[@]}" merge --config "conf/$1.yaml" --overlay "conf/scale/$scale/$1.yaml" --output "$2" >/dev/null
}

# The data dir that a system is trained on, and each one that the plan needs with the first system that needs it.
training_set() { awk -F '\t' -v name="$1" '$1 == name {gsub(" ", "+", $3); print $3}' <<<"$plan"; }
training_sets() { awk -F '\t' 'NF {gsub(" ", "+", $3)} !seen[$3]++ {printf "%s\t%s\n", $3, $1}' <<<"$plan"; }

# Jobs of a stage, a line each; none if the plan is empty, as that of tables for which nothing is trained.
train_jobs() {
  local name number
  while IFS=$'\t' read -r name _; do
    [[ -n $name ]] || continue
    for number in $seeds; do printf '%s\t%s\n' "$name" "$number"; done
  done <<<"$plan"
}
score_jobs() {
  local name number decoding
  while IFS=$'\t' read -r name decoding; do
    [[ -n $name ]] || continue
    for number in $seeds; do printf '%s\t%s\t%s\n' "$name" "$number" "$decoding"; done
  done <<<"$decodings"
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

# write_tables CORPUS_NAME COMMAND_LINE [OPTION]...
write_tables() {
  "${tables[@]}" write "${selection[@]}" --expdir "$expdir" --corpus "$1" --command "$2" "${@:3}"
}
