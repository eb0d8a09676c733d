#!/usr/bin/env bash
# Find faults in a data dir, by file and utterance.
# Usage: utils/validate_data_dir.sh [--no-text] [--audio [--rate HZ]] DIR
. "$(dirname "$0")/path.sh"
exec espnet-ext data validate "$@"
