# shellcheck shell=bash disable=SC2154
# Command-line options for run.sh, as in Kaldi: each variable that the script sets before it sources this file is an
# option. A line `name=default  # text` declares one. --help prints these texts, the comment at the top of the script, and
# the texts of its lines `run NUMBER STAGE  # text`. Sets the array `options` to all options as --name=value, except
# --stage and --stop_stage, which the function `run` uses.
names=$(sed -n '/parse_options\.sh/q; s/^\([a-z][a-z0-9_]*\)=.*/\1/p' "$0")

fail() {
  echo "${0##*/}: error: $1 (${0##*/} --help lists the options)" >&2
  exit 1
}

print_help() {
  echo "Usage: ${0##*/} [--name value]..."
  sed -n '2,/^[^#]/s/^# \{0,1\}\(shellcheck .*\)\{0,1\}//p' "$0"
  echo "Options [and their defaults]:"
  sed -n '/parse_options\.sh/q; s/^\([a-z][a-z0-9_]*\)=\([^ ]*\) *# *\(.*\)/\1\t\3\t[\2]/p' "$0" | sed 's/\t\[\]$//' |
    while IFS=$'\t' read -r name text default; do printf '  --%-16s %s\n' "$name" "$text${default:+ $default}"; done
  echo "Stages:"
  sed -n 's/^run \([0-9]*\) \([a-z_]*\) *# *\(.*\)/\1\t\2\t\3/p' "$0" |
    while IFS=$'\t' read -r number name text; do printf '  %s %-15s %s\n' "$number" "$name" "$text"; done
}

command_line=./run.sh
for word in "$@"; do
  case $word in *[!A-Za-z0-9_,./=:+-]*) word="'$word'" ;; esac # it can be pasted into a shell
  command_line+=" $word"
done
while (($# > 0)); do
  case $1 in
    -h | --help)
      print_help 2>/dev/null || : # what reads the help may want its first lines only
      exit 0
      ;;
    --*=*) name=${1%%=*} value=${1#*=} && shift ;;
    --?*)
      name=${1#--}
      # an option that is false by default may stand alone
      if (($# == 1)) || [[ $2 == --* ]]; then
        grep -q "^${name//-/_}=false\b" "$0" && set -- "$1" true "${@:2}"
      fi
      (($# > 1)) && [[ $2 != --* ]] || fail "$1 needs a value"
      name=$1 value=$2 && shift 2
      ;;
    *) fail "unexpected argument '$1'" ;;
  esac
  name=${name#--} name=${name//-/_}
  grep -qx -- "$name" <<<"$names" || fail "unknown option '--$name'; the options are ${names//$'\n'/ }"
  printf -v "$name" '%s' "$value"
done
for name in stage stop_stage; do
  [[ ${!name} =~ ^[0-9]{1,3}$ ]] || fail "--$name takes a whole number, not '${!name}'"
done
last=$(sed -n 's/^run \([0-9]*\) .*/\1/p' "$0" | tail -n 1)
((10#$stage <= 10#$stop_stage && 10#$stage <= last && 10#$stop_stage >= 1)) ||
  fail "no stage is between --stage $stage and --stop_stage $stop_stage: the stages are 1 to $last"
options=()
for name in $names; do
  [[ $name == stage || $name == stop_stage ]] || options+=("--$name=${!name}")
done

# run NUMBER STAGE: run this stage of the recipe if it is between --stage and --stop_stage.
run() {
  ((stage <= $1 && $1 <= stop_stage)) || return 0
  printf '\n== Stage %s: %s\n' "$1" "${2//_/ }"
  ESPNET_EXT_COMMAND=$command_line ESPNET_EXT_SHELL=$$ espnet-ext run "$2" --recipe="$(dirname "$0")" "${options[@]}"
}
