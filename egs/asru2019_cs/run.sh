#!/usr/bin/env bash
# Language-related attention for Mandarin-English code-switching (Zhang et al. 2022, "P1") on the corpora of the ASRU 2019
# challenge. Makes a table of the paper: prepares the data, trains the systems that the table lacks, decodes, scores, and
# prints the paper's numbers beside its own. Without --asru2019 it makes a small synthetic corpus in the same layout.
#
# Examples:
#   ./run.sh --table 1 --rows baseline,separate                  # two systems on the synthetic corpus
#   ./run.sh --scale full --asru2019 /data/asru2019 --librispeech /data/LibriSpeech --table 1 --ngpu 2
#
# shellcheck disable=SC2034
set -euo pipefail

# What to run
table=1          # number of a table of the paper, several separated by commas, or all
rows=            # rows of the table by name, separated by commas; all if empty
scale=mini       # smoke|mini|mini_again|mini_joint|full: size of the models and of the synthetic corpus; full is the paper's
seed=1           # seeds, separated by commas
encoder=         # joint|shared|pretrained: each trains its encoder, all use one, or each trains it further; the scale's choice if empty
average=         # best:N|last:N: decode the mean of the N best or last epochs; the scale's own choice if empty
asr_config=      # a training config of yours: train it and show its row; "base: SYSTEM" and changes, or a whole one
name=mine        # what that row is called
stage=1          # first stage to run
stop_stage=8     # last stage to run
rehearse=false   # true: check the corpora and try all stages on the longest utterances, in minutes (docs/rehearsal.md)
# Data
asru2019=        # folder of the challenge's corpus, or of the one that --corpus names (README.md); synthetic if empty
data=            # in place of a corpus: folder of Kaldi data dirs train, dev and test sets of any name; of train-zh and others too
corpus=asru2019  # asru2019|talcs|seame|ascend: whose layout that folder has
folders=         # parts that lie elsewhere, as PART=DIR with commas between; relative to that folder
mandarin=        # folder of AISHELL-1 or aidatatang_200zh, for the Mandarin part; the corpus's own if empty
librispeech=     # folder of LibriSpeech (train-clean-100 and 360 are used); LibriSpeech in the corpus folder if empty
check_audio=auto # auto|header|full: auto decodes all audio of a small corpus and reads the headers of a large one
skip_faulty=false # true: go on without faulty utterances, at most 2 % of a part; or the percentage
# Resources
ngpu=0           # GPUs to use: systems run side by side with one each (docs/gpus.md)
nj=2             # processes on this machine
train_jobs=      # trainings that train_cmd in cmd.sh starts at once; all of a table if empty (docs/clusters.md)
parallel=        # conf/parallel/*.yaml, your own file, or "queue.pl --mem 4G": statistics and decoding on a cluster
# Folders
expdir=          # systems and results; exp/SCALE if empty, exp/SCALE-CORPUS for your own corpus
datadir=         # data dirs; data/SCALE or data/SCALE-CORPUS if empty

. "$(dirname "$0")/path.sh"
. "$(dirname "$0")/cmd.sh"
. "$(dirname "$0")/../../utils/parse_options.sh"

run 1 data       # the corpus: synthetic, or yours, checked; Kaldi data dirs
run 2 tokens     # Han characters and English word pieces, and the language of each
run 3 statistics # lengths, mean and variance of the features
run 4 encoder    # the encoder of all systems, if there is one: trained by CTC on all data; shared: its outputs kept
run 5 training   # each system and seed that the table lacks
run 6 decoding   # test sets by each system
run 7 scoring    # mixed error rates: all tokens, Chinese characters, English words
run 8 tables     # results as JSON and Markdown, the paper's numbers beside ours
