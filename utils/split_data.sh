#!/usr/bin/env bash
# Split a data dir by speaker into DIR/splitN/1 ... N, or by utterance into DIR/splitNutt/1 ... N.
# Usage: utils/split_data.sh [--per-utt] DIR N
exec "$(dirname "$0")/../tools/venv/bin/espnet-ext" data split "$@"
