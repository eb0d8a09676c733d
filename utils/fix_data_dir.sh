#!/usr/bin/env bash
# Keep the utterances of a data dir that are whole; the files as they were go to DIR/.backup.
# Usage: utils/fix_data_dir.sh DIR
exec "$(dirname "$0")/../tools/venv/bin/python" -m espnet_ext.bin.data_dir fix "$@"
