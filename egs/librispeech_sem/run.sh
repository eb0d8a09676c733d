#!/usr/bin/env bash
# Small Energy Masking for end-to-end speech recognition (Kim et al. 2020, "P2") on LibriSpeech.
# Makes a table of the paper: prepares the data, trains the systems that the table lacks, decodes, scores, and prints the
# paper's numbers beside its own. Without --librispeech it makes a small synthetic corpus in LibriSpeech's layout.
#
# Examples:
#   ./run.sh --table 1 --rows baseline,0dB                       # two systems on the synthetic corpus
#   ./run.sh --scale full --librispeech /data/LibriSpeech --table 1 --ngpu 4
#
# shellcheck disable=SC2034
set -euo pipefail

# What to run
table=1          # number of a table of the paper, several separated by commas, or all
rows=            # rows of the table by name, separated by commas; all if empty
scale=mini       # smoke|mini|mini_short|mini_few|mini_out|mini_digits|full: size of the models and of the synthetic corpus; full is the paper's
seed=            # seeds, separated by commas; if empty, as many as conf/tables.yaml has for each system (seeds)
pretrain=        # true|false: layer-wise pre-training; the scale's own choice if empty
lm_size=         # small|large: the language model of table 5; the scale's own choice if empty
average=         # best:N|last:N: decode the mean of the N best or last epochs; the scale's own choice if empty
asr_config=      # a training config of yours: train it and show its row; "base: SYSTEM" and changes, or a whole one
name=mine        # what that row is called
stage=1          # first stage to run
stop_stage=8     # last stage to run
rehearse=false   # true: check the corpora and try all stages on the longest utterances, in minutes (docs/rehearsal.md)
# Data
librispeech=     # folder of the LibriSpeech corpus (the one with SPEAKERS.TXT); synthetic if empty
data=            # in place of a corpus: folder of Kaldi data dirs train, dev and test sets of any name
lm_text=         # librispeech-lm-norm.txt.gz; the file of that name in the corpus folder if empty
clean_only=false # true: LibriSpeech without its parts called other, in training and in testing
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

run 1 data           # the corpus: synthetic, or yours, checked; Kaldi data dirs
run 2 tokens         # word pieces
run 3 statistics     # lengths, mean and variance of the features
run 4 language_model # only for tables whose decoding uses one
run 5 training       # each system and seed that the table lacks
run 6 decoding       # test sets by each system
run 7 scoring        # word error rates
run 8 tables         # results as JSON and Markdown, the paper's numbers beside ours
