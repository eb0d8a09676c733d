#!/usr/bin/env bash
# Make tools/venv with all packages, unless it is complete. `make -C tools install` calls this.
#
#   LATEST=1   the newest versions that pyproject.toml allows, in place of the tested ones in tools/requirements.lock
#   CPU=1      torch's CPU build, if its index can be reached
#   PYTHON=P   this interpreter (3.12 or 3.13), in place of one that is found
set -euo pipefail

unset CDPATH # with it, cd may print where it went, or go elsewhere
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
root=${tools%/*} venv=$tools/venv bootstrap=$tools/.bootstrap
# What is active in the user's shell must not affect the environment that is made here.
unset VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE PYTHONSTARTUP UV_PYTHON UV_TARGET UV_PREFIX
unset UV_SYSTEM_PYTHON PIP_TARGET PIP_PREFIX PIP_USER PIP_REQUIRE_VIRTUALENV
# Where CPU and LATEST are not given, the environment stays what it is.
of_venv() { sed -n "s/.*$1=\([01]\).*/\1/p" "$venv/.installed" 2>/dev/null || true; }
LATEST=${LATEST:-$(of_venv LATEST)} CPU=${CPU:-$(of_venv CPU)} PYTHON=${PYTHON:-}
LATEST=${LATEST:-0} CPU=${CPU:-0}

fail() {
  printf 'error: %s\n' "$1" >&2
  exit 1
}

# Is $1 at least Python 3.$2, and below 3.$3? A shim of pyenv may be there without its Python.
is_python() { "$1" -I -c "import sys; sys.exit(not (3, $2) <= sys.version_info < (3, $3))" >/dev/null 2>&1; }

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3.12 python3.13 python3 "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/3.1[23].*/bin/python}; do
    if is_python "$candidate" 12 14; then command -v "$candidate" && return; fi
  done
  [[ -z $PYTHON ]] || fail "PYTHON=$PYTHON is not a Python 3.12 or 3.13"
  echo 3.12 # uv downloads it
}

# Print a uv that can read pyproject.toml: the one on PATH, or one that any Python from 3.8 on installs into tools/.bootstrap.
find_uv() {
  local candidate
  for candidate in uv "$bootstrap/uv/bin/uv"; do
    if (cd "$root" && "$candidate" python dir) >/dev/null 2>&1; then echo "$candidate" && return; fi
  done
  for candidate in "$1" python3 /usr/bin/python3 python; do
    is_python "$candidate" 8 99 || continue
    # Debian's Python cannot make a virtual environment without the package python3-venv; its pip may be there.
    "$candidate" -m venv --clear "$bootstrap/uv" >&2 && "$bootstrap/uv/bin/python" -m pip install uv >&2 ||
      "$candidate" -m pip install --upgrade --target "$bootstrap/uv" uv >&2 || continue
    echo "$bootstrap/uv/bin/uv" && return
  done
  fail "no Python with pip could install uv: install uv (docs.astral.sh/uv) and run this again"
}

[[ $root != *[[:space:]]* ]] || fail "the path of this repository has a space in it, '$root': make and Kaldi split at spaces"
# The package that another clone's environment imports would become this one's.
for path in "$venv" "$venv/bin"; do
  [[ -L $path ]] || continue
  fail "$path is a link to $(readlink -f "$path"), another clone's environment: run this there, or remove the link (rm $path)"
done
for name in LATEST CPU; do [[ ${!name} == [01] ]] || fail "$name takes 0 or 1, not '${!name}'"; done
# The environment is up to date as long as nothing of this changes.
state=$(printf '%s\n' "$venv" "LATEST=$LATEST CPU=$CPU" && cat "$root/pyproject.toml" "$tools/requirements.lock" | cksum)
is_complete() { [[ -x $venv/bin/python && $(cat "$venv/.installed" 2>/dev/null) == "$state" ]]; }
! is_complete || exit 0
[[ -w $tools ]] || fail "you may not write to $tools: clone the repository to your own folder"
mkdir -p "$bootstrap"
exec 9>"$bootstrap/lock"
if command -v flock >/dev/null; then flock 9; fi # one installation at a time
! is_complete || exit 0

[[ -w ${HOME:-} ]] || export HOME=$bootstrap # where uv and pip keep downloads
# Behind a company's proxy only the system's certificates work. A bare container has none; then uv uses its own.
if [[ -s /etc/ssl/certs/ca-certificates.crt || -s /etc/pki/tls/certs/ca-bundle.crt ]]; then export UV_SYSTEM_CERTS=true; fi
export UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-120}
echo "Installing into $venv: about 7 GB, some minutes if it must be downloaded"
python=$(find_python)
uv=$(find_uv "$python")
cd "$root" # where uv finds [tool.uv]
if [[ ! -x $venv/bin/python || -n $PYTHON ]]; then "$uv" venv --clear --python "$python" "$venv"; fi
options=(--python "$venv/bin/python" --compile-bytecode)
if ((CPU)); then
  if UV_HTTP_TIMEOUT=10 "$uv" pip install "${options[@]}" --torch-backend cpu --dry-run --no-deps torch >/dev/null 2>&1; then
    options+=(--torch-backend cpu)
  else
    echo "CPU=1: the index of torch's CPU build cannot be reached, so the default build is used, which also runs on CPUs"
  fi
fi
((LATEST)) || options+=(--constraint "$tools/requirements.lock")
command -v cc >/dev/null || command -v gcc >/dev/null || echo "note: meeteval needs a C++ compiler (Debian: apt-get install g++)"
extras=recipes,whisper,longform,stitch,dvectors,mini,gguf,report,docs,dev
if ((!CPU)) && command -v nvidia-smi >/dev/null; then extras+=,whisper-gpu; fi
options+=(pip --editable "${root}[$extras]")
for attempt in 1 2 3; do
  if "$uv" pip install "${options[@]}"; then
    printf '%s\n' "$state" >"$venv/.installed"
    echo "The environment is complete. In each shell: . $venv/bin/activate"
    exit 0
  fi
  echo "The installation failed (attempt $attempt of 3); what is downloaded is used again"
  sleep 5
done
fail "the packages could not be installed, see above; run the same command again to resume"
