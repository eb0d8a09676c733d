#!/usr/bin/env bash
# ruff over all Python and shellcheck over all shell of the repository: what git tracks and what is new, not ignored.
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$tools/.."

list_files() {
  # git refuses a repository of another user, and an archive has none.
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

shell=()
while IFS= read -r file; do
  if is_shell "$file"; then shell+=("$file"); fi
done < <(list_files)

status=0
"$tools/venv/bin/ruff" check . || status=1
"$tools/venv/bin/shellcheck" "${shell[@]}" || status=1
((status != 0)) || echo "${#shell[@]} shell files are clean"
exit "$status"
