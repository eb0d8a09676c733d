# shellcheck shell=bash disable=SC2034
# The head of each recipe's run.sh, after parse_options.sh. Goes to the recipe's folder, where it reads path.sh, cmd.sh, stages.sh
# and the scale's settings; relative paths of the caller stay what they were.
#
#   . "$(dirname "$0")/../../utils/recipe.sh" CORPUS [OPTION]...
#
# names the option that holds the corpus, and others that hold paths. It sets
#
#   corpus        the corpus's folder: the user's, or that of the synthetic one      corpus_name   what tables call it
#   expdir, datadir, stats_dir, lm_dir   folders of its own for each scale, variant (if that is set) and corpus
: "${scale:?}" "${variant=}" "${parallel=}" "${expdir=}" "${datadir=}"

absolute() {
  local -n absolute_path=$1
  [[ -z $absolute_path ]] || absolute_path=$(realpath -m -- "$absolute_path")
}
for option in "$@" expdir datadir; do absolute "$option"; done
[[ ! -f $parallel ]] || parallel=$(realpath -- "$parallel") # else it is one of the recipe's

cd "$(dirname "$0")" || exit 1
# shellcheck source=utils/path.sh
. ./path.sh
# shellcheck source=egs/librispeech_sem/cmd.sh
. ./cmd.sh
# shellcheck source=utils/stages.sh
. ../../utils/stages.sh
# shellcheck source=egs/librispeech_sem/conf/scale/mini/settings.sh
. "conf/scale/$scale/settings.sh"

corpus=${!1} corpus_name=synthetic tag=$scale${variant:+-$variant}
if [[ -n $corpus ]]; then
  corpus_name=$(basename "$corpus")
  [[ $scale == full ]] || tag+=-$corpus_name
elif [[ $scale == full ]]; then
  die "--scale full needs --$1 DIR; README.md says what it holds and how to get it"
fi
expdir=${expdir:-exp/$tag}
datadir=${datadir:-data/$tag}
corpus=${corpus:-$datadir/corpus}
stats_dir=$expdir/stats
lm_dir=$expdir/lm
