# shellcheck shell=bash disable=SC2034
# The head of each recipe's run.sh, after its options. Reads the command line, goes to the recipe's folder, and reads path.sh,
# cmd.sh, stages.sh and the scale's settings there; relative paths of the caller stay what they were.
#
#   . "$(dirname "$0")/../../utils/recipe.sh" CORPUS [OPTION]... -- "$@"
#
# names the option that holds the corpus, and others that hold paths. It sets
#
#   command_line  what results are said to come from
#   corpus        the corpus's folder: the user's, or that of the synthetic one      corpus_name   what tables call it
#   expdir, datadir, stats_dir, lm_dir   folders of its own for each scale, corpus and variant: what the recipe's function
#                                        `variant` prints, if it has one
path_options=()
while [[ $1 != -- ]]; do
  path_options+=("$1")
  shift
done
shift
command_line="./run.sh $*"
# shellcheck source=utils/old_parse_options.sh
. "${BASH_SOURCE[0]%/*}/old_parse_options.sh"
: "${scale:?}" "${seed:?}" "${nj:?}" "${ngpu:?}" "${parallel=}" "${expdir=}" "${datadir=}"
if (($# > 0)); then
  echo "run.sh: error: unexpected argument '$1' (run.sh --help lists the options)" >&2
  exit 1
fi

absolute() {
  local -n absolute_path=$1
  [[ -z $absolute_path ]] || absolute_path=$(realpath -m -- "$absolute_path")
}
for option in "${path_options[@]}" expdir datadir; do absolute "$option"; done
# Else it is the recipe's, or that of all recipes.
[[ ! -f $parallel ]] || parallel=$(realpath -- "$parallel")

cd "$(dirname "$0")" || exit 1
# shellcheck source=utils/path.sh
. ./path.sh
# shellcheck source=utils/cmd.sh
. ./cmd.sh
# shellcheck source=utils/stages.sh
. ../../utils/stages.sh
# shellcheck source=egs/librispeech_sem/conf/scale/mini/settings.sh
. "conf/scale/$scale/settings.sh"

[[ $seed =~ ^[0-9]+(,[0-9]+)*$ ]] || die "--seed takes whole numbers separated by commas, not '$seed'"
((nj >= 1)) || die "--nj must be at least 1"
((ngpu >= 0)) || die "--ngpu must be at least 0"
[[ -z $parallel || -f $parallel ]] || parallel=../../$parallel
[[ -z $parallel || -f $parallel ]] || die "--parallel: there is no file ${parallel#../../}"

tag=$scale
if declare -F variant >/dev/null && [[ -n $(variant) ]]; then tag+=-$(variant); fi
corpus=${!path_options[0]} corpus_name=synthetic
if [[ -n $corpus ]]; then
  corpus_name=$(basename "$corpus")
  [[ $scale == full ]] || tag+=-$corpus_name
elif [[ $scale == full ]]; then
  die "--scale full needs --${path_options[0]} DIR; README.md says what it holds and how to get it"
fi
expdir=${expdir:-exp/$tag}
datadir=${datadir:-data/$tag}
corpus=${corpus:-$datadir/corpus}
stats_dir=$expdir/stats
lm_dir=$expdir/lm
