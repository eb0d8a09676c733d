#!/usr/bin/env bash
# NAME: what the paper is about, in one sentence (authors and year).
# Makes a table of the paper: prepares the data, trains the systems that the table lacks, decodes, scores, and prints the
# paper's numbers beside its own. Without --librispeech it makes a small synthetic corpus in LibriSpeech's layout.
#
# Examples:
#   ./run.sh --table 1                                           # on the synthetic corpus
#   ./run.sh --scale full --librispeech /data/LibriSpeech --table 1 --ngpu 4
#
# shellcheck disable=SC2034,SC1091
set -euo pipefail

# What to run
table=1          # number of a table of the paper, several separated by commas, or all
rows=            # rows of the table by name, separated by commas; all if empty
scale=mini       # smoke|mini|full: size of the models and of the synthetic corpus; full is the paper's
seed=1           # seeds, separated by commas
asr_config=      # a training config of yours: train it and show its row; "base: SYSTEM" and changes, or a whole one
name=mine        # what that row is called
stage=1          # first stage to run
stop_stage=7     # last stage to run
rehearse=false   # true: check the corpora and try all stages on the longest utterances, in minutes (docs/clusters.md)
# Data
librispeech=     # folder of the LibriSpeech corpus (the one with SPEAKERS.TXT); synthetic if empty
check_audio=auto # auto|header|full: auto decodes all audio of a small corpus and reads the headers of a large one
skip_faulty=false # true: go on without faulty utterances, at most 2 % of a part; or the percentage
# Resources
ngpu=0           # GPUs to use: systems run side by side with one each (docs/clusters.md)
nj=2             # processes on this machine
parallel=        # conf/parallel/*.yaml or your own file: statistics and decoding on a cluster
# Folders
expdir=          # systems and results; exp/SCALE if empty, exp/SCALE-CORPUS for your own corpus
datadir=         # data dirs; data/SCALE or data/SCALE-CORPUS if empty

. "$(dirname "$0")/path.sh"
. "$(dirname "$0")/cmd.sh"
. "$(dirname "$0")/../../utils/parse_options.sh"

run 1 data       # the corpus: synthetic, or yours, checked; Kaldi data dirs
run 2 tokens     # word pieces
run 3 statistics # lengths, mean and variance of the features
run 4 training   # each system and seed that the table lacks
run 5 decoding   # test sets by each system
run 6 scoring    # word error rates
run 7 tables     # results as JSON and Markdown, the paper's numbers beside ours
