#!/usr/bin/env bash
# Say by file and utterance what is wrong with a data dir.
# Usage: utils/validate_data_dir.sh [--no-text] [--check-audio [--rate HZ]] DIR
exec "$(dirname "$0")/../tools/venv/bin/python" -m espnet_ext.bin.data_dir validate "$@"
