#!/usr/bin/env bash
# Put data dirs together.
# Usage: utils/combine_data.sh DEST SOURCE...
exec "$(dirname "$0")/../tools/venv/bin/espnet-ext" data combine "$@"
