#!/usr/bin/env bash
# The hypothesis stitcher for speaker-attributed ASR of long recordings with several talkers (Chang et al. 2021, "P4"): mixtures of
# LibriSpeech, a speaker-attributed recogniser, its hypotheses of 16-second windows, stitchers that make one transcript a speaker of
# them, and the paper's tables on mixtures and on LibriCSS. Without --librispeech it makes a small synthetic corpus of both.
#
# Examples:
#   ./run.sh --table 2 --rows 'Block-wise inference,Stitcher WCOE'      # two systems on the synthetic corpus
#   ./run.sh --table 2 --librispeech DIR                                 # mixtures of your corpus in LibriSpeech's layout
#   ./run.sh --scale full --librispeech /data/LibriSpeech --libricss /data/LibriCSS --table all --ngpu 4
#   ./run.sh --help
set -euo pipefail

# begin options
# What to run
table=all        # <T> number of a table of the paper, several separated by commas, or all; Table 1 counts the mixtures of stage 2
rows=            # <a,b> rows of the table by name; all if empty
scale=mini       # {smoke|mini|full} size of the models and of the synthetic corpus; full is the paper's
seed=1           # <N,N> seeds of the stitchers, separated by commas; the recogniser has seed 1
recogniser=      # {lstm|conformer} layers of the speaker-attributed recogniser; the scale's own choice if empty
stage=1          # first stage to run
stop_stage=9     # last stage to run
# Data
librispeech=     # <DIR> the LibriSpeech corpus (the folder with SPEAKERS.TXT); a synthetic corpus if empty
libricss=        # <DIR> the LibriCSS corpus (the folder that holds for_release), for Table 4
enrolment_list=  # <FILE> libricss_speaker_info.jsonl of LibriCSS's repository; looked for in --libricss if empty
check_audio=auto # {auto|header|full} how the audio is checked: auto decodes all of a small corpus, reads the headers of a large one
# Resources
ngpu=0           # GPUs of one training
nj=2             # processes on this machine
parallel=        # <FILE> conf/parallel/*.yaml: statistics and decoding on a cluster
# Folders
expdir=          # <DIR> systems and results; exp/<scale> if empty, exp/<scale>-<corpus> for another corpus than the scale's own
datadir=         # <DIR> data dirs; data/<scale> or data/<scale>-<corpus> if empty
# end options

# begin stages
# 1 data          the corpora: synthetic, or yours, checked; Lhotse manifests
# 2 mixtures      speaker profiles, mixtures for training and testing (Table 1), LibriCSS cut at silences
# 3 tokens        word pieces
# 4 statistics    lengths, mean and variance of the features; d-vectors of sliding windows
# 5 recogniser    speaker-attributed ASR: first on single utterances, then on mixtures
# 6 hypotheses    what the recogniser hears in whole recordings and in windows
# 7 training      each stitcher and seed that the table lacks
# 8 stitching     transcripts by each system, and their SA-WER
# 9 tables        results as JSON and Markdown, paper beside ours
# end stages

command_line="./run.sh $*"
. "$(dirname "$0")/../../utils/parse_options.sh"
[[ $# -eq 0 ]] || { echo "run.sh: error: unexpected argument '$1' (run.sh --help lists the options)" >&2; exit 1; }
. "$(dirname "$0")/../../utils/recipe.sh" librispeech libricss enrolment_list

asr_task=sa_asr
token_symbols=('<sc>')
tokens_dir=$datadir/tokens_$token_type$vocab_size
. ../../utils/asr.sh
. local/mixtures.sh
. ../../utils/systems.sh
. local/stitchers.sh
. local/stitch.sh

if stage 1 "Data"; then
  if [[ -z $librispeech ]]; then
    step --name "synthetic corpus" --log "$datadir/log/corpus.log" --nokey "--nj $nj" -- \
      "$python" -m espnet_ext.bin.make_mini --corpus libricss --size "$corpus_size" --output "$corpus" {}
  fi
  list_files "$datadir/log/corpus_files.txt" "${parts[@]/#/$librispeech_dir/}"
  step --name "manifests of $corpus_name" --log "$datadir/log/manifests.log" --nokey "--nj $nj" \
    --input "$datadir/log/corpus_files.txt" --output "$datadir/manifests" -- \
    "$python" -m espnet_ext.bin.prepare_corpus librispeech --corpus "$librispeech_dir" --output "$datadir/manifests" \
    --check-audio "$check_audio" \
    --parts "$(IFS=,; echo "${parts[*]}")" {}
  asr_format librispeech "${parts[@]}"
  if [[ -n $libricss_dir ]]; then prepare_libricss; fi
fi

if stage 2 "Mixtures"; then
  make_voices
  make_profiles
  make_mixtures
  table1
fi

if stage 3 "Tokens"; then
  asr_tokens train_sa "$token_type" "$vocab_size"
fi

if stage 4 "Statistics"; then
  recogniser_configs
  asr_stats "$recogniser_config" train_sa dev_sa "$token_type"
  compute_d_vectors train_sa dev_sa
  if [[ $single_first == true ]]; then
    asr_stats "$recogniser_config" train_single dev_sa "$token_type"
    compute_d_vectors train_single
  fi
fi

if stage 5 "Recogniser"; then
  train_recogniser
fi

if stage 6 "Hypotheses"; then
  hear "$(cuts | xargs)" "${test_sets[*]}"
  if [[ -n $(training_cuts) ]]; then hear "$(training_cuts | xargs)" train_stitch; fi
fi

if stage 7 "Training"; then
  each_system train_system
fi

if stage 8 "Stitching"; then
  each_system stitch_system
fi

if stage 9 "Tables"; then
  table1
  write_tables "$corpus_name" "$command_line"
fi
