# shellcheck shell=bash disable=SC2154
# Command-line options for run.sh, as in Kaldi: each variable that the script sets before it sources this file is an
# option. A line `name=default  # text` declares one. --help prints these texts, the comment at the top of the script, and
# the texts of its lines `run NUMBER STAGE  # text`. Sets the array `options` to all options as --name=value, except
# --stage and --stop_stage, which the function `run` uses.
opt_names=$(sed -n '/parse_options\.sh/q; s/^\([a-z][a-z0-9_]*\)=.*/\1/p' "$0")

fail() {
  echo "${0##*/}: error: $1 (${0##*/} --help lists the options)" >&2
  exit 2
}

# The option whose name is closest to a wrong one; without one, all of them.
did_you_mean() {
  # shellcheck disable=SC2086 # names are words
  "${python:-python3}" -c 'import difflib, sys
wrong, *names = sys.argv[1:]
close = difflib.get_close_matches(wrong, names, 1)
print(f". Did you mean \x27--{close[0]}\x27?" if close else "; the options are " + " ".join(names), end="")' "$1" $opt_names
}

print_help() {
  echo "Usage: ${0##*/} [--name value]..."
  sed -n '2,/^[^#]/s/^# \{0,1\}\(shellcheck .*\)\{0,1\}//p' "$0"
  echo "Options [and their defaults]:"
  sed -n '/parse_options\.sh/q; s/^\([a-z][a-z0-9_]*\)=\([^ ]*\) *# *\(.*\)/\1\t\3\t[\2]/p' "$0" | sed 's/\t\[\]$//' |
    while IFS=$'\t' read -r opt_name text default; do printf '  --%-16s %s\n' "$opt_name" "$text${default:+ $default}"; done
  echo "Stages:"
  sed -n 's/^run \([0-9]*\) \([a-z_]*\) *# *\(.*\)/\1\t\2\t\3/p' "$0" |
    while IFS=$'\t' read -r number opt_name text; do printf '  %s %-15s %s\n' "$number" "$opt_name" "$text"; done
}

command_line=./run.sh
for opt_word in "$@"; do
  case $opt_word in *[!A-Za-z0-9_,./=:+-]*) opt_word="'$opt_word'" ;; esac # it can be pasted into a shell
  command_line+=" $opt_word"
done
while (($# > 0)); do
  case $1 in
    -h | --help)
      print_help 2>/dev/null || : # what reads the help may want its first lines only
      exit 0
      ;;
    --*=*) opt_name=${1%%=*} opt_value=${1#*=} && shift ;;
    --?*)
      opt_name=${1#--}
      # an option that is false by default may stand alone
      if (($# == 1)) || [[ $2 == --* ]]; then
        grep -q "^${opt_name//-/_}=false\b" "$0" && set -- "$1" true "${@:2}"
      fi
      (($# > 1)) && [[ $2 != --* ]] || fail "$1 needs a value"
      opt_name=$1 opt_value=$2 && shift 2
      ;;
    *) fail "unexpected argument '$1'" ;;
  esac
  opt_name=${opt_name#--} opt_name=${opt_name//-/_}
  grep -qx -- "$opt_name" <<<"$opt_names" || fail "unknown option '--$opt_name'$(did_you_mean "$opt_name")"
  printf -v "$opt_name" '%s' "$opt_value"
done
for opt_name in stage stop_stage; do
  [[ ${!opt_name} =~ ^[0-9]{1,3}$ ]] || fail "--$opt_name takes a whole number, not '${!opt_name}'"
done
opt_last=$(sed -n 's/^run \([0-9]*\) .*/\1/p' "$0" | tail -n 1)
((10#$stage <= 10#$stop_stage && 10#$stage <= opt_last && 10#$stop_stage >= 1)) ||
  fail "no stage is between --stage $stage and --stop_stage $stop_stage: the stages are 1 to $opt_last"
options=()
for opt_name in $opt_names; do
  [[ $opt_name == stage || $opt_name == stop_stage ]] || options+=("--$opt_name=${!opt_name}")
done

if [[ ${rehearse:-false} == true ]]; then
  ((10#$stage == 1 && 10#$stop_stage >= opt_last)) || fail "--rehearse goes through all stages: leave out --stage and --stop_stage"
fi

# run NUMBER STAGE: run this stage of the recipe if it is between --stage and --stop_stage. Lines `run` that follow each
# other share one process, which loads ESPnet once. In place of the first stage, a rehearsal goes through all of them.
opt_stages=()
run() {
  if [[ ${rehearse:-false} == true ]]; then
    (($1 > 1)) || opt_stages=(rehearsal)
  elif ((10#$stage <= $1 && $1 <= 10#$stop_stage)); then
    opt_stages+=("$2")
  fi
  if ((${#opt_stages[@]} == 0)) || sed -n "$((BASH_LINENO[0] + 1))p" "$0" | grep -q '^run [0-9]'; then return 0; fi
  set -- "${opt_stages[@]}"
  opt_stages=()
  ESPNET_EXT_COMMAND=$command_line ESPNET_EXT_SHELL=$$ espnet-ext run "$@" --recipe="$(dirname "$0")" "${options[@]}"
}
