#!/usr/bin/env bash
# Drop incomplete utterances from a data dir, and sort it. The original files go to DIR/.backup.
# Usage: utils/fix_data_dir.sh DIR
. "$(dirname "$0")/path.sh"
exec espnet-ext data fix "$@"
