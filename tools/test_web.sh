#!/usr/bin/env bash
# Test the results page in a real browser. Installs Playwright into tools/venv and Debian's Chromium; if that is not possible,
# it says why and skips the tests. Screenshots of the pages are in tools/.bootstrap/web. `make -C tools test-web` calls this.
#   test_web.sh [PYTEST_OPTION]...
set -euo pipefail
unset CDPATH # with it, cd may print where it went, or go elsewhere
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$tools/venv/bin/python
playwright='playwright>=1.50,<2' # it uses Chromium's own protocol, so any version works with any recent Chromium
log=$tools/.bootstrap/web.log

skip() {
  printf 'skipped: %s\n' "$1"
  exit 0
}

find_chromium() { command -v chromium || command -v chromium-browser || command -v google-chrome; }

mkdir -p "$tools/.bootstrap/web"
if ! find_chromium >/dev/null; then
  command -v apt-get >/dev/null || skip "there is no Chromium on PATH, and no apt-get to install it; install Chromium yourself"
  ((EUID == 0)) || skip "there is no Chromium on PATH, and only root may install it: apt-get install chromium"
  echo "Installing Debian's Chromium (about 300 MB)"
  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium; } >"$log" 2>&1 ||
    skip "Chromium could not be installed: $(grep -m 1 '^E:' "$log" || echo "see $log")"
fi
if ! "$python" -c 'import playwright' 2>/dev/null; then
  echo "Installing Playwright into tools/venv"
  "$python" -m pip install --quiet "$playwright" >"$log" 2>&1 || skip "Playwright could not be installed: see $log"
fi
echo "$("$(find_chromium)" --version 2>/dev/null), Playwright $("$python" -m pip show playwright | sed -n 's/^Version: //p')"
cd "$tools/.."
REPORT_SCREENSHOTS=$tools/.bootstrap/web "$python" -m pytest tests/pages/test_in_browser.py -s "$@"
echo "screenshots of the pages: $tools/.bootstrap/web"
