#!/usr/bin/env bash
# A part of a data dir; or --utt-list FILE SOURCE DEST, --spk-list FILE SOURCE DEST.
# Usage: utils/subset_data_dir.sh [--first|--last|--shortest|--per-spk|--random] SOURCE NUMBER DEST
exec "$(dirname "$0")/../tools/venv/bin/python" -m espnet_ext.bin.data_dir subset "$@"
