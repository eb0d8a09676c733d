#!/usr/bin/env bash
# The hypothesis stitcher for speaker-attributed ASR of long recordings with several talkers (Chang et al. 2021, "P4"): mixtures of
# LibriSpeech, a speaker-attributed recogniser, its hypotheses of 16-second windows, stitchers that make one transcript per speaker of
# them, and the paper's tables on mixtures and on LibriCSS. Without --librispeech it makes a small synthetic corpus of both.
#
# Examples:
#   ./run.sh --table 2 --rows 'Block-wise inference,Stitcher WCOE'      # two systems on the synthetic corpus
#   ./run.sh --table 2 --librispeech DIR                                 # mixtures of your corpus in LibriSpeech's layout
#   ./run.sh --scale full --librispeech /data/LibriSpeech --libricss /data/LibriCSS --table all --ngpu 4
#
# shellcheck disable=SC2034
set -euo pipefail

# What to run
table=all        # number of a table of the paper, several separated by commas, or all; Table 1 counts the mixtures of stage 2
rows=            # rows of the table by name, separated by commas; all if empty
scale=mini       # smoke|mini|mini_digits|mini_digits_again|mini_digits_long|mini_libricss|mini_libricss_again|full: models and synthetic corpus; full is the paper's
seed=1           # seeds of the stitchers, separated by commas; the recogniser has seed 1
recogniser=      # lstm|conformer: layers of the speaker-attributed recogniser; whisper: Whisper tiny.en on speakers in turns; the scale's own if empty
pairs_within=    # seconds between words that the alignment-based stitcher pairs; none: P4's alignment; the scale's own if empty
asr_config=      # a training config of yours: train it and show its row; "base: SYSTEM" and changes, or a whole one
stitcher_config= # the same for a stitcher
name=mine        # what that row is called
stage=1          # first stage to run
stop_stage=9     # last stage to run
rehearse=false   # true: check the corpora and try all stages on the longest utterances, in minutes (docs/rehearsal.md)
# Data
librispeech=     # folder of the LibriSpeech corpus (the one with SPEAKERS.TXT); synthetic if empty
data=            # in place of a corpus: folder of Kaldi data dirs train, dev and test sets of any name, of which mixtures are made
libricss=        # folder of the LibriCSS corpus (the one with for_release), for Table 4
enrolment_list=  # libricss_speaker_info.jsonl of LibriCSS's repository; looked for in the LibriCSS folder if empty
speaker_model=   # parameters of an ESPnet speaker model that makes the profiles; Resemblyzer if empty
speaker_model_config= # its config.yaml; the one beside the parameters if empty
rir_scp=         # table of room impulse responses that are applied in training; none if empty
noise_scp=       # table of noises that are added in training; none if empty
clean_only=false # true: LibriSpeech without its parts called other; the test sets are clean anyway
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

run 1 data       # the corpora: synthetic, or yours, checked; Kaldi data dirs
run 2 mixtures   # speaker profiles, mixtures for training and testing, Table 1
run 3 tokens     # word pieces
run 4 statistics # lengths, mean and variance of the features; d-vectors of sliding windows
run 5 recogniser # speaker-attributed ASR: on single utterances, mixtures, and mixtures that are cut
run 6 hypotheses # what the recogniser hears in whole recordings and in windows
run 7 training   # each stitcher and seed that the table lacks
run 8 stitching  # transcripts by each system, and their SA-WER
run 9 tables     # results as JSON and Markdown, the paper's numbers beside ours
