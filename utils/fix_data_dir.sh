#!/usr/bin/env bash
# Drop incomplete utterances from a data dir, and sort it. The original files go to DIR/.backup.
# Usage: utils/fix_data_dir.sh DIR
exec "$(dirname "$0")/../tools/venv/bin/espnet-ext" data fix "$@"
