#!/usr/bin/env bash
# Make tools/venv with all packages, unless it is already complete. `make -C tools install` calls this.
#
#   CPU=1      use torch's CPU build, if its index can be reached
#   LOCKED=1   use the tested versions in tools/requirements.lock, not the newest that pyproject.toml allows
#   PYTHON=P   use this interpreter (3.12 or 3.13) for a new environment, not one that is found
set -euo pipefail

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$tools")
venv=$tools/venv
bootstrap=$tools/.bootstrap
lock=$tools/requirements.lock
stamp=$venv/.installed # written last: an environment without it is incomplete

# What is active in the user's shell must not affect the environment that is made here.
unset VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE PYTHONSTARTUP
unset UV_PYTHON UV_PROJECT_ENVIRONMENT UV_SYSTEM_PYTHON UV_TARGET UV_PREFIX PIP_TARGET PIP_PREFIX PIP_USER
unset PIP_REQUIRE_VIRTUALENV

fail() {
  printf 'error: %s\n' "$1" >&2
  exit 1
}

# What the environment was made from, one item per line. It is up to date as long as nothing of this changes.
state_of_venv() {
  local version versions=newest
  version=$("$venv/bin/python" -I -c 'import platform; print(platform.python_version())' 2>/dev/null) || return 1
  ((locked == 0)) || versions=$(cksum <"$lock")
  printf 'place %s\npython %s\ncpu %s\n' "$venv" "$version" "$cpu"
  printf 'setup %s\nlocked %s %s\n' "$(cksum <"$root/pyproject.toml")" "$locked" "$versions"
}

is_installed() {
  local state
  [[ -f $stamp ]] && state=$(state_of_venv) && [[ $state == "$(<"$stamp")" ]]
}

# Did only pyproject.toml or the lock file change? Then installed packages can stay.
is_outdated() {
  local state
  [[ -f $stamp ]] && state=$(state_of_venv) && [[ ${state%%setup *} == "$(sed '/^setup /,$d' "$stamp")"$'\n' ]]
}

# What uv or pip is doing, from its log: what has started and not ended, such as the build of a package; otherwise the last line.
progress_of() {
  awk '
    $1 == "Building" || $1 == "Downloading" { open[$2] = tolower($1) " " $2; names[++count] = $2 }
    $1 == "Built" || $1 == "Downloaded" { delete open[$2] }
    NF { last = $0 }
    END {
      for (i = 1; i <= count; i++) if (names[i] in open) { text = text (text ? ", " : "") open[names[i]]; delete open[names[i]] }
      if (!text && sub(/^Installed /, "compiling ", last)) sub(/ in .*/, "", last)
      print text ? text : last
    }' "$1"
}

# watch LABEL COMMAND...: run it with its own progress bars on a terminal, otherwise with a line every 5 s; after a
# failure print its last lines.
watch() {
  local label=$1 log=$bootstrap/install.log start=$SECONDS status=0 ticks=0 last
  shift
  if [[ -t 2 ]]; then
    "$@" </dev/null || return $?
  else
    "$@" >"$log" 2>&1 </dev/null &
    child=$!
    while kill -0 "$child" 2>/dev/null; do
      sleep 0.5
      if ((++ticks % 10 == 0)); then
        last=$(progress_of "$log")
        printf '  %s: %d s%s\n' "$label" $((SECONDS - start)) "${last:+, ${last:0:70}}"
      fi
    done
    wait "$child" || status=$?
    child=""
    if ((status != 0)); then
      tail -n 25 "$log" >&2
      return "$status"
    fi
  fi
  printf '  %s: done in %d s\n' "$label" $((SECONDS - start))
}

# Print the first of the given folders that is writable.
writable_folder() {
  local folder
  for folder; do
    if [[ $folder == /* ]] && mkdir -p "$folder" 2>/dev/null && [[ -w $folder ]]; then
      printf '%s' "$folder"
      return
    fi
  done
  fail "cannot write to any of: $*"
}

# uv and pip keep their downloads below HOME, which may be unset, another user's or read-only.
set_downloads() {
  local cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}} data=${XDG_DATA_HOME:-${HOME:+$HOME/.local/share}}
  UV_CACHE_DIR=$(writable_folder "${UV_CACHE_DIR-}" "${cache:+$cache/uv}" "$bootstrap/cache/uv")
  PIP_CACHE_DIR=$(writable_folder "${PIP_CACHE_DIR-}" "${cache:+$cache/pip}" "$bootstrap/cache/pip")
  UV_PYTHON_INSTALL_DIR=$(writable_folder "${UV_PYTHON_INSTALL_DIR-}" "${data:+$data/uv/python}" "$bootstrap/python")
  UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-120} UV_HTTP_RETRIES=${UV_HTTP_RETRIES:-6}
  export UV_CACHE_DIR PIP_CACHE_DIR UV_PYTHON_INSTALL_DIR UV_HTTP_TIMEOUT UV_HTTP_RETRIES
  # Behind a company's proxy only the system's certificates work. A bare container has none; then uv uses its own.
  if [[ -s /etc/ssl/certs/ca-certificates.crt || -s /etc/pki/tls/certs/ca-bundle.crt || -s /etc/ssl/cert.pem ]]; then
    export UV_SYSTEM_CERTS=true UV_NATIVE_TLS=true # the new name and the old
  fi
}

# Does this uv work, and is it new enough for pyproject.toml? `uv --version` alone does not read that file.
is_uv() {
  "$1" --version >/dev/null 2>&1 && (cd "$root" && "$1" python dir) >/dev/null 2>&1
}

# Set uv to a working uv: the one on PATH, or one installed into tools/.bootstrap with any Python from 3.8 on.
find_uv() {
  local candidate
  for candidate in uv "$bootstrap/uv/bin/uv"; do
    if is_uv "$candidate"; then
      uv=$candidate
      return
    fi
  done
  for candidate in "$1" python3 /usr/bin/python3 python "${PYENV_ROOT:-${HOME-}/.pyenv}"/versions/3.*/bin/python; do
    "$candidate" -I -c 'import sys; sys.exit(sys.version_info < (3, 8))' >/dev/null 2>&1 || continue
    echo "uv: there is no suitable one on PATH, installing it into tools/.bootstrap with $candidate"
    rm -rf "$bootstrap/uv"
    # Debian's Python cannot make a virtual environment without the package python3-venv, but its pip may work.
    if "$candidate" -m venv "$bootstrap/uv" >/dev/null 2>&1; then
      watch uv "$bootstrap/uv/bin/python" -m pip install --retries 5 uv || continue
    else
      rm -rf "$bootstrap/uv"
      watch uv "$candidate" -m pip install --retries 5 --target "$bootstrap/uv" uv || continue
    fi
    uv=$bootstrap/uv/bin/uv
    is_uv "$uv" && return
  done
  fail "uv is not on PATH, and no Python here could install it; install uv (docs.astral.sh/uv) and run this again"
}

make_venv() {
  if is_outdated; then
    rm "$stamp"
    return
  fi
  rm -rf "$venv"
  if [[ -n $1 ]]; then
    echo "Python: $1"
    watch environment "$uv" venv --python "$1" "$venv" || fail "no environment could be made with $1; see above"
  else
    echo "Python: neither PATH nor pyenv has 3.12 or 3.13, so uv downloads one"
    UV_PYTHON_PREFERENCE=only-managed UV_PYTHON_DOWNLOADS=automatic \
      watch Python "$uv" venv --python 3.12 "$venv" ||
      fail "there is no Python 3.12 or 3.13 on PATH or in pyenv's versions, and uv could not download one; install one \
of them, or name it: make -C tools PYTHON=/path/to/python3.12"
  fi
}

# Make uv use torch's CPU build, if its index can be reached.
choose_torch() {
  echo "CPU=1: looking for torch's CPU build"
  if UV_HTTP_TIMEOUT=10 UV_HTTP_RETRIES=0 UV_TORCH_BACKEND=cpu "$uv" pip install --python "$venv/bin/python" \
    --dry-run --no-deps --reinstall-package torch torch </dev/null >/dev/null 2>&1; then
    export UV_TORCH_BACKEND=cpu
  else
    echo "CPU=1: its index cannot be reached from here, so the default build is used, which also runs on CPUs"
  fi
}

install_packages() {
  local attempt options=(--python "$venv/bin/python" --compile-bytecode)
  cd "$root" # where uv finds [tool.uv] of pyproject.toml
  ((locked == 0)) || options+=(--constraint "$lock")
  if ! command -v cc >/dev/null && ! command -v gcc >/dev/null; then
    echo "note: there is no C compiler here; meeteval (and, with Python 3.13, editdistance) needs one (Debian: apt-get install g++)"
  fi
  for attempt in 1 2 3; do
    if ((attempt > 1)); then
      echo "The installation failed; attempt $attempt of 3 uses what is already downloaded"
      sleep 5
    fi
    watch packages "$uv" pip install "${options[@]}" pip \
      --editable "${root}[recipes,llm,whisper,longform,stitch,dvectors,mini,report,docs,dev]" && return
  done
  fail "the packages could not be installed, see above; run the same command again to resume"
}

[[ $root != *[[:space:]]* ]] ||
  fail "the path of this repository has a space in it, '$root'; move it to one without: make and Kaldi split at spaces"
# If these are not given, the environment's own values are kept.
cpu=${CPU:-$(sed -n 's/^cpu //p' "$stamp" 2>/dev/null || true)}
cpu=${cpu:-0}
[[ $cpu == [01] ]] || fail "CPU takes 0 or 1, not '$cpu'"
locked=${LOCKED:-$(sed -n 's/^locked \([01]\) .*/\1/p' "$stamp" 2>/dev/null || true)}
locked=${locked:-0}
[[ $locked == [01] ]] || fail "LOCKED takes 0 or 1, not '$locked'"
if is_installed; then
  echo "The environment is complete: $venv"
  exit 0
fi
[[ -w $tools ]] ||
  fail "$(id -un 2>/dev/null || id -u) cannot write to $tools; clone the repository to your own folder"

child=""
trap '[[ -z $child ]] || kill "$child" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM HUP
mkdir -p "$bootstrap"
# One install at a time. The system releases the lock when the process ends.
if command -v flock >/dev/null; then
  exec 9>"$bootstrap/lock"
  if ! flock -n 9; then
    echo "Waiting for another install of this folder to end"
    flock 9
    if is_installed; then
      echo "The environment is complete: $venv"
      exit 0
    fi
  fi
fi

echo "Installing into $venv: about 7 GB; some minutes if it must be downloaded"
set_downloads
if ! python=$("$tools/find_python.sh"); then
  [[ -z ${PYTHON-} ]] || exit 1
  python=""
fi
find_uv "$python"
make_venv "$python"
[[ $cpu == 0 ]] || choose_torch
install_packages
state_of_venv >"$stamp.new"
mv "$stamp.new" "$stamp"
echo "The environment is complete: $venv"
