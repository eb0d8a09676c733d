#!/usr/bin/env bash
# Write a subset of a data dir.
# Usage: utils/subset_data_dir.sh [--first|--last|--shortest|--per-spk] SOURCE NUMBER DEST, or --utt-list|--spk-list FILE SOURCE DEST
exec "$(dirname "$0")/../tools/venv/bin/espnet-ext" data subset "$@"
