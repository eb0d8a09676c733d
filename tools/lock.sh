#!/usr/bin/env bash
# Write tools/requirements.lock: the version of each package in tools/venv. `make -C tools lock` calls this.
set -euo pipefail
unset CDPATH # with it, cd may print where it went, or go elsewhere
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lock=$tools/requirements.lock

# A local label such as 2.11.0+cpu names a build. Any build of that version is fine.
packages=$("$tools/venv/bin/python" -m pip freeze --exclude-editable | sed 's/+.*//' | LC_ALL=C sort -f)
if grep -vE '^[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.!]*$' <<<"$packages" >&2; then
  echo "error: the packages above were not installed by version; run 'make -C tools clean install' first" >&2
  exit 1
fi
cat >"$lock.new" <<EOF
# Versions that the tests pass with; \`make -C tools install\` takes them. Made by \`make -C tools lock\` from tools/venv.
# To try the newest versions that pyproject.toml allows: make -C tools clean && make -C tools install test lock LATEST=1
$packages
EOF
mv "$lock.new" "$lock"
echo "$lock: $(grep -c == "$lock") packages"
