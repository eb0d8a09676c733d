#!/usr/bin/env bash
# How much context an attention-based speech recogniser needs (Flynn & Ragni 2024, "P5"): training on podcasts with any
# context, decoding whole recordings by moving windows, evaluation on Earnings-22, TED-LIUM and Rev16.
# Makes figures and tables of the paper: prepares the data, trains the systems that they lack, decodes, scores, and puts the
# paper's numbers beside its own. Corpora that are not given are synthetic ones in the same layouts, except at scale full.
#
# Examples:
#   ./run.sh --figure 1 --seed 1,2,3                             # the synthetic corpora, contexts of 5 to 40 s
#   ./run.sh --table 1                                           # the longest context that fits, and the speed
#   ./run.sh --scale full --spotify DIR --tedlium DIR --earnings22 DIR --rev16 DIR --musan DIR --figure 1 --ngpu 1
#
# shellcheck disable=SC2034
set -euo pipefail

# What to run
figure=          # number of a figure of the paper, several separated by commas, or all; 1 if no table is given either
table=           # 1: the paper's table
rows=            # points of the figures and rows of the tables by name, such as 'Rev16 at 10 s'; all if empty
scale=mini       # smoke|mini|mini_batch80|mini_rooms|mini_rooms_again|full: size of the models and of the synthetic corpora; full is the paper's
seed=1           # seeds, separated by commas; the paper has three repeats
asr_config=      # a training config of yours: train it and show its row; "base: SYSTEM" and changes, or a whole one
name=mine        # what that row is called
stage=1          # first stage to run
stop_stage=7     # last stage to run
rehearse=false   # true: check the corpora and try all stages on the longest utterances, in minutes (docs/rehearsal.md)
# Data
spotify=         # folder of podcasts: podcasts-transcripts, podcasts-audio and metadata.tsv; synthetic if empty
audio=           # instead of --spotify: folder of recordings, of any length and in folders of any depth
data=            # instead of --spotify: folder of Kaldi data dirs train and dev (with a file ctm, or give --aligner) and test sets of any name
words=           # for --audio: word times, a ctm file
text=            # for --audio, if there are no word times: lines 'recording transcript', or a folder of .txt or .stm
aligner=         # for --text or --data: an ESPnet model with CTC: the folder of its training, or packed
passes=          # passes over the recordings; 1 at full if empty. TED-LIUM needs some 20: README.md
schedule=        # counts|shares: warm-ups as numbers of P5's training, or as its shares of yours; counts if empty
held_out=        # how many recordings of --spotify or --audio are validated on; 20 at full, 3 at mini if empty
published=       # instead of --spotify: folder of the authors' models, SYSTEM/seedN each; README.md says how to import them
tedlium=         # folder of TED-LIUM 3, which holds legacy; synthetic if empty
earnings22=      # folder of Earnings-22: metadata.csv, media and transcripts; synthetic if empty
rev16=           # folder of Rev16: verbatim_transcripts and media; synthetic if empty
musan=           # folder of MUSAN, whose music is the noise of figure 2; generated if empty
check_audio=auto # auto|header|full: auto decodes all audio of a small corpus and reads the headers of a large one
keep_features=   # true: compute features once and keep them (16 kB per second of audio at full); mini does
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

run 1 data       # the corpora: synthetic, or yours, checked; Kaldi data dirs of whole recordings, and word times
run 2 tokens     # word pieces
run 3 statistics # mean and deviation of each recording
run 4 training   # each system and seed that the figures and tables lack
run 5 decoding   # test sets by each system, with moving windows
run 6 scoring    # word error rates; for table 1, memory and speed
run 7 tables     # results as JSON, Markdown and PNG, the paper's numbers beside ours
