#!/usr/bin/env bash
# Combine data dirs into one.
# Usage: utils/combine_data.sh DEST SOURCE...
exec "$(dirname "$0")/../tools/venv/bin/espnet-ext" data combine "$@"
