#!/usr/bin/env bash
# Print the path of a Python 3.12 or 3.13 for the environment. If there is none, print nothing and exit with status 1.
#
# Looks on PATH, then in pyenv's versions. If $PYTHON is set, it is the only candidate. Each candidate is run, since pyenv has
# shims also for versions that are not active, and these fail.
set -euo pipefail

# Prints the path of the base interpreter, not of a virtual environment, which may be deleted.
probe='
import struct, sys, sysconfig
if sys.version_info[:2] not in ((3, 12), (3, 13)) or sys.implementation.name != "cpython":
    sys.exit(1)
if struct.calcsize("P") != 8 or sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit(1)
print(getattr(sys, "_base_executable", None) or sys.executable)
'

try() {
  local found
  found=$("$1" -I -c "$probe" 2>/dev/null </dev/null) || return 1
  [[ -x $found ]] || return 1
  printf '%s\n' "$found"
}

if [[ -n ${PYTHON-} ]]; then
  try "$PYTHON" && exit 0
  echo "error: PYTHON=$PYTHON is not a working Python 3.12 or 3.13 (64 bit, with its GIL)" >&2
  exit 1
fi

for name in python3.12 python3.13 python3 python; do
  while IFS= read -r candidate; do
    try "$candidate" && exit 0
  done < <(type -aP "$name" || true)
done

for root in "${PYENV_ROOT-}" "${HOME:+$HOME/.pyenv}"; do
  [[ -n $root ]] || continue
  for minor in 3.12 3.13; do
    while IFS= read -r candidate; do
      try "$candidate" && exit 0
    done < <(printf '%s\n' "$root/versions/$minor".*/bin/python | sort -rV)
  done
done
exit 1
