#!/usr/bin/env bash
# Build the site into site/. A warning, such as a link inside the repository that leads nowhere, is an error.
#   docs.sh            # build
#   docs.sh links      # also try every address on the network
set -euo pipefail
unset CDPATH # with it, cd may print where it went, or go elsewhere
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$tools/.."
"$tools/venv/bin/python" -m sphinx -c docs -b html -j auto -W --keep-going -q . site/html
echo "the site: $PWD/site/html/docs/index.html"
if [[ ${1-} == links ]]; then
  "$tools/venv/bin/python" -m sphinx -c docs -b linkcheck -q . site/links
fi
