# shellcheck shell=bash
# The interpreter of tools/venv, and an environment in which nothing from outside changes a result. Sourced by the path.sh
# of each recipe.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
python=$root/tools/venv/bin/python
if [[ ! -x $python ]]; then
  echo "${0##*/}: error: $python is missing; run 'make -C $root/tools install' first" >&2
  exit 1
fi
# It doubles the time of every start.
unset PYTHONDONTWRITEBYTECODE PYTHONPATH PYTHONHOME VIRTUAL_ENV
export PYTHONUNBUFFERED=1 LC_ALL=C.UTF-8
export PATH=$root/tools/venv/bin:$PATH
# One thread a process: several run side by side, and a sum does not depend on how many.
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
