#!/usr/bin/env bash
# Combine data dirs into one.
# Usage: utils/combine_data.sh DEST SOURCE...
. "$(dirname "$0")/path.sh"
exec espnet-ext data combine "$@"
