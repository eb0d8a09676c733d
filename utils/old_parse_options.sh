# shellcheck shell=bash
# Command-line options for a script whose settings are plain variables. Source it, without arguments, after them:
#
#   #!/usr/bin/env bash
#   # Train and score the recipe.                  <- the comment block on top opens the help
#
#   # begin options
#   # General                                      <- a heading
#   stage=1          # first stage to run          <- the default is a whole number: only whole numbers are taken
#   resume=true      # go on where a run stopped   <- the default is true or false: only these are taken
#   scale=mini       # {smoke|mini|full} how much  <- only what the braces list is taken
#   table=1          # <T> number, or 'all'        <- <NAME>: any text is taken, and the help calls it NAME
#                    # 'none' for no table         <- the comment goes on
#   datadir=         # where the data lies         <- anything else: any text is taken
#   # end options
#   . utils/parse_options.sh
#
# `--name value` and `--name=value` then set what stands between the two markers and nothing else; a dash in a name is
# an underscore. Options end at `--` or at the first argument that is none; what follows stays in "$@". `--help` prints
# the help; its list of stages is each unindented comment line between `# begin stages` and `# end stages`.
# Values are stored as they are and never evaluated. Bad usage ends the calling script with one line and status 1.
#
# Options that several scripts have may stand between the same markers of a file beside this one. A script takes them by
#
#   . "$(dirname "$0")/../../utils/options.sh"
#
# as the first line of its own section. Where it has an option of the same name, its own default and text hold. In the help
# its own options stand under the headings of that file, at the line `# ...` or else last, and its own headings after the
# one before them.
#
# All names here begin with _po_, locals too: a local called `name` would hide an option of that name.

if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 404)); then
  echo "error: bash 4.4 or later is needed, this is $BASH_VERSION" >&2
  exit 1
fi

_po_names=() _po_kinds=() _po_defaults=() _po_texts=() _po_help=() _po_about=() _po_stages=() _po_at=0

_po_fail() {
  printf '%s: error: %s (%s --help lists the options)\n' "${_po_script##*/}" "$1" "${_po_script##*/}" >&2
  exit 1
}

# The calling script as a path that can be read. It may have gone to another folder since it was started as ./a/run.sh.
_po_find_script() {
  local _po_path
  for _po_path in "$1" "${OLDPWD:-.}/$1" "./${1##*/}"; do
    if [[ -f $_po_path && -r $_po_path ]]; then
      _po_script=$_po_path
      return
    fi
  done
  _po_script=$1
  _po_fail "cannot read this script again for its options"
}

# Put entry $1 of the help at _po_at, the place where it goes on.
_po_show() {
  _po_help=("${_po_help[@]:0:_po_at}" "$1" "${_po_help[@]:_po_at}")
  _po_at=$((_po_at + 1))
}

# Go on at the end of heading $1, or with a new heading after the one where it went on so far.
_po_go_to_heading() {
  local _po_i _po_found=""
  for _po_i in "${!_po_help[@]}"; do
    [[ ${_po_help[_po_i]} != "heading $1" ]] || _po_at=$((_po_i + 1)) _po_found=own
  done
  while ((_po_at < ${#_po_help[@]})) && [[ ${_po_help[_po_at]} != heading* && ${_po_help[_po_at]} != "$_po_found" ]]; do
    _po_at=$((_po_at + 1))
  done
  [[ -n $_po_found ]] || _po_show "heading $1"
}

# Forget what the help says of option $1, if it is there, and go on in its place.
_po_replace() {
  local _po_i
  for _po_i in "${!_po_help[@]}"; do
    [[ ${_po_help[_po_i]} == "option $1 "* ]] || continue
    _po_at=$_po_i
    _po_help=("${_po_help[@]:0:_po_i}" "${_po_help[@]:_po_i+1}")
    while [[ ${_po_help[_po_i]-} == more* ]]; do _po_help=("${_po_help[@]:0:_po_i}" "${_po_help[@]:_po_i+1}"); done
    return
  done
}

# Note option $1, its kind told by the first word of its comment $2 or by its default, as described above.
_po_declare() {
  local _po_default=${!1-} _po_text=$2 _po_kind=text _po_label=TEXT _po_index=0
  local _po_choices='^\{([^}]+)\}[[:space:]]*(.*)$' _po_metavar='^<([^>]+)>[[:space:]]*(.*)$'
  if [[ $_po_text =~ $_po_choices ]]; then
    _po_kind="|${BASH_REMATCH[1]}|" _po_label=${BASH_REMATCH[1]} _po_text=${BASH_REMATCH[2]}
  elif [[ $_po_text =~ $_po_metavar ]]; then
    _po_label=${BASH_REMATCH[1]} _po_text=${BASH_REMATCH[2]}
  elif [[ $_po_default == true || $_po_default == false ]]; then
    _po_kind=bool _po_label='true|false'
  elif [[ $_po_default =~ ^-?[0-9]+$ ]]; then
    _po_kind=int _po_label=N
  fi
  while [[ ${_po_names[_po_index]-$1} != "$1" ]]; do _po_index=$((_po_index + 1)); done
  _po_names[_po_index]=$1 _po_kinds[_po_index]=$_po_kind _po_defaults[_po_index]=$_po_default _po_texts[_po_index]=$_po_text
  _po_replace "$_po_index"
  _po_show "option $_po_index --${1//_/-} $_po_label"
}

# Read the options and what the help shows from file $1. $2 is top where its first comment belongs to the help, else body.
_po_read() {
  local _po_line _po_part=$2 _po_name _po_text _po_option='^([A-Za-z_][A-Za-z0-9_]*)='
  local _po_comment='^[^#]*[[:space:]]#[[:space:]]*(.*)$' _po_more='^[[:space:]]+#[[:space:]]*(.*)$'
  local _po_shared='^\.[[:space:]][^#]*/([A-Za-z0-9_-]+\.sh)"?([[:space:]]|$)'
  while IFS= read -r _po_line || [[ -n $_po_line ]]; do
    case $_po_part:$_po_line in
      top:'#!'* | *:'# shellcheck '*) ;;
      *:'# begin options') _po_part=options ;;
      *:'# begin stages') _po_part=stages ;;
      options:'# end options' | stages:'# end stages') _po_part=body ;;
      top:'#'*) _po_line=${_po_line#\#} && _po_about+=("${_po_line# }") ;;
      top:*) _po_part=body ;;
      stages:'#'*) _po_line=${_po_line#\#} && _po_stages+=("${_po_line# }") ;;
      options:'# ...') _po_show own ;;
      options:'#'*) _po_line=${_po_line#\#} && _po_go_to_heading "${_po_line# }" ;;
      options:*)
        if [[ $_po_line =~ $_po_option ]]; then
          _po_name=${BASH_REMATCH[1]} _po_text=""
          if [[ $_po_line =~ $_po_comment ]]; then _po_text=${BASH_REMATCH[1]}; fi
          _po_declare "$_po_name" "$_po_text"
        elif [[ $_po_line =~ $_po_more ]]; then
          _po_show "more ${BASH_REMATCH[1]}"
        elif [[ $_po_line =~ $_po_shared ]]; then
          _po_read "${BASH_SOURCE[0]%/*}/${BASH_REMATCH[1]}" body
        fi
        ;;
    esac
  done <"$1"
}

_po_print_help() {
  local _po_entry _po_word _po_index _po_flag _po_text
  printf 'Usage: %s [options]\n' "${_po_script##*/}"
  if ((${#_po_about[@]} > 0)); then
    printf '\n'
    printf '%s\n' "${_po_about[@]}"
  fi
  printf '\nOptions [and their defaults]:\n'
  for _po_entry in "${_po_help[@]}"; do
    _po_word=${_po_entry%% *} _po_entry=${_po_entry#* }
    case $_po_word in
      own) ;;
      heading) printf '\n %s\n' "$_po_entry" ;;
      more) printf '  %-28s  %s\n' "" "$_po_entry" ;;
      option)
        _po_index=${_po_entry%% *} _po_flag=${_po_entry#* }
        _po_text=${_po_texts[_po_index]}
        if [[ -n ${_po_defaults[_po_index]} ]]; then _po_text+="${_po_text:+ }[${_po_defaults[_po_index]}]"; fi
        if ((${#_po_flag} > 28)); then
          printf '  %s\n' "$_po_flag"
          _po_flag=""
        fi
        printf '  %-28s  %s\n' "$_po_flag" "$_po_text"
        ;;
    esac
  done
  printf '\n  %-28s  %s\n' "--help" "print this"
  if ((${#_po_stages[@]} > 0)); then
    printf '\nStages:\n'
    printf '  %s\n' "${_po_stages[@]}"
  fi
}

# Levenshtein distance of $1 and $2, in _po_distance.
_po_edit_distance() {
  local _po_i _po_j _po_cost _po_best _po_diagonal
  local -a _po_row
  for ((_po_j = 0; _po_j <= ${#2}; _po_j++)); do _po_row[_po_j]=$_po_j; done
  for ((_po_i = 1; _po_i <= ${#1}; _po_i++)); do
    _po_diagonal=${_po_row[0]} _po_row[0]=$_po_i
    for ((_po_j = 1; _po_j <= ${#2}; _po_j++)); do
      _po_cost=1
      [[ ${1:_po_i-1:1} != "${2:_po_j-1:1}" ]] || _po_cost=0
      _po_best=$((_po_diagonal + _po_cost))
      ((_po_best <= _po_row[_po_j] + 1)) || _po_best=$((_po_row[_po_j] + 1))
      ((_po_best <= _po_row[_po_j - 1] + 1)) || _po_best=$((_po_row[_po_j - 1] + 1))
      _po_diagonal=${_po_row[_po_j]} _po_row[_po_j]=$_po_best
    done
  done
  _po_distance=${_po_row[${#2}]}
}

# End the script over argument $1, naming the nearest option where one is near.
_po_unknown() {
  local _po_given=${1%%=*} _po_name _po_nearest="" _po_least=8
  _po_given=${_po_given:0:40}
  for _po_name in "${_po_names[@]}"; do
    _po_edit_distance "$_po_given" "--${_po_name//_/-}"
    # of two that are as near, the one with the same first letter: --sacle is --scale, not --table
    if [[ ${_po_given:2:1} == "${_po_name:0:1}" ]]; then _po_distance=$((2 * _po_distance - 1)); else _po_distance=$((2 * _po_distance)); fi
    if ((_po_distance < _po_least)); then
      _po_least=$_po_distance _po_nearest="; did you mean --${_po_name//_/-}?"
    fi
  done
  _po_fail "unknown option ${_po_given@Q}$_po_nearest"
}

# Position of option $1 (--name) in the lists, in _po_index.
_po_find() {
  local _po_name=${1#--}
  for _po_index in "${!_po_names[@]}"; do
    [[ ${_po_names[_po_index]} != "${_po_name//-/_}" ]] || return 0
  done
  _po_unknown "$1"
}

# Set the option at _po_index, written $1, to $2 if it takes that value.
_po_assign() {
  local _po_kind=${_po_kinds[_po_index]}
  case $_po_kind in
    text) ;;
    bool) [[ $2 == true || $2 == false ]] || _po_fail "$1 takes true or false, not ${2@Q}" ;;
    # The script will calculate with it, and bash arithmetic runs code that is hidden in text.
    int) [[ $2 =~ ^-?(0|[1-9][0-9]{0,17})$ ]] || _po_fail "$1 takes a whole number, not ${2@Q}" ;;
    *)
      [[ -n $2 && $2 != *'|'* && $_po_kind == *"|$2|"* ]] ||
        _po_fail "$1 takes one of ${_po_kind:1:-1}, not ${2@Q}"
      ;;
  esac
  printf -v "${_po_names[_po_index]}" '%s' "$2"
}

_po_find_script "${BASH_SOURCE[-1]}"
_po_read "$_po_script" top
((${#_po_names[@]} > 0)) || _po_fail "it has no settings between '# begin options' and '# end options'"
while (($# > 0)); do
  case $1 in
    --help | -h)
      _po_print_help
      exit 0
      ;;
    --)
      shift
      break
      ;;
    --*=*)
      _po_find "${1%%=*}"
      _po_assign "${1%%=*}" "${1#*=}"
      shift
      ;;
    --*)
      _po_find "$1"
      if (($# < 2)) || [[ $2 == --* ]]; then
        _po_fail "$1 wants a value"
      fi
      _po_assign "$1" "$2"
      shift 2
      ;;
    -?*) _po_unknown "$1" ;;
    *) break ;;
  esac
done

unset -f _po_fail _po_find_script _po_show _po_go_to_heading _po_replace _po_declare _po_read \
  _po_print_help _po_edit_distance _po_unknown _po_find _po_assign
unset _po_names _po_kinds _po_defaults _po_texts _po_help _po_about _po_stages _po_script _po_distance _po_index _po_at
