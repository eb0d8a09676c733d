#!/usr/bin/env bash
# Check the whole repository. `make -C tools lint` calls this.
#   lint.sh [ruff] [format] [shellcheck] [hadolint] [deptry] [mypy]    # some checks; all if none is named
set -euo pipefail
shopt -s nullglob
unset CDPATH # with it, cd may print where it went, or go elsewhere
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$tools/.."
bin=$tools/venv/bin

# There may be no git repository (an archive), or git may refuse one that belongs to another user.
list_files() {
  git ls-files --cached --others --exclude-standard 2>/dev/null ||
    find . \( -path ./tools/venv -o -path ./tools/.bootstrap -o -name 'exp*' -o -name .git \) -prune -o -type f -print
}

is_shell() {
  local first=""
  [[ -f $1 ]] || return 1
  [[ $1 != *.sh ]] || return 0
  [[ ${1##*/} != *.* ]] || return 1
  IFS= read -r first <"$1" 2>/dev/null || true
  [[ $first =~ ^\#!.*[/\ ](ba|da|k)?sh($|\ ) ]]
}

# The script that Apptainer runs while it builds; {{ torch }}, an argument of the build, becomes $1.
# shellcheck disable=SC2016
post_of() { sed -n '/^%post/,/^%test/{/^%/d;s/{{ *torch *}}/$1/g;p}' "$1"; }

run() {
  local shell=() file
  case $1 in
    ruff) "$bin/ruff" check . ;;
    format) "$bin/ruff" format --check . ;;
    shellcheck)
      while IFS= read -r file; do
        if is_shell "$file"; then shell+=("$file"); fi
      done < <(list_files)
      "$bin/shellcheck" "${shell[@]}"
      post_of containers/espnet_ext.def | "$bin/shellcheck" --shell sh -
      ;;
    hadolint) "$bin/hadolint" containers/Dockerfile ;;
    deptry) "$bin/deptry" --no-ansi espnet_ext egs/*/local ;;
    mypy) "$bin/mypy" ;;
    *) echo "error: no such check" >&2 && return 2 ;;
  esac
}

(($# > 0)) || set -- ruff format shellcheck hadolint deptry mypy
failed=()
for check; do
  echo "== $check"
  run "$check" || failed+=("$check")
done
((${#failed[@]} == 0)) || echo "failed: ${failed[*]}" >&2
exit $((${#failed[@]} > 0))
