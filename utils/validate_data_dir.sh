#!/usr/bin/env bash
# Find faults in a data dir, by file and utterance.
# Usage: utils/validate_data_dir.sh [--no-text] [--audio [--rate HZ]] DIR
exec "$(dirname "$0")/../tools/venv/bin/espnet-ext" data validate "$@"
