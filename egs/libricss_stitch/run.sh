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
. "$(dirname "$0")/../../utils/options.sh" # those of all recipes, such as --scale; below are this one's own
# What to run
table=all        # <T> number of a table of the paper, several separated by commas, or all; Table 1 counts the mixtures of stage 2
seed=1           # <N,N> seeds of the stitchers, separated by commas; the recogniser has seed 1
recogniser=      # {lstm|conformer} layers of the speaker-attributed recogniser; the scale's own choice if empty
# Data
librispeech=     # <DIR> the LibriSpeech corpus (the folder with SPEAKERS.TXT); synthetic if empty
libricss=        # <DIR> the LibriCSS corpus (the folder that holds for_release), for Table 4
enrolment_list=  # <FILE> libricss_speaker_info.jsonl of LibriCSS's repository; looked for in --libricss if empty
speaker_model=   # <FILE> parameters of an ESPnet speaker model that makes the profiles; Resemblyzer if empty
speaker_model_config= # <FILE> its config.yaml; the one beside --speaker_model if empty
# end options

# begin stages
# 1 data            the corpora: synthetic, or yours, checked; Lhotse manifests
# 2 mixtures        speaker profiles, mixtures for training and testing (Table 1), LibriCSS cut at silences
# 3 tokens          word pieces
# 4 statistics      lengths, mean and variance of the features; d-vectors of sliding windows
# 5 recogniser      speaker-attributed ASR: on single utterances, mixtures, and mixtures that are cut
# 6 hypotheses      what the recogniser hears in whole recordings and in windows
# 7 training        each stitcher and seed that the table lacks
# 8 stitching       transcripts by each system, and their SA-WER
# 9 tables          results as JSON and Markdown, paper beside ours
# end stages

variant() { [[ -z $speaker_model ]] || echo speaker_model; } # other profiles have folders of their own
. "$(dirname "$0")/../../utils/recipe.sh" librispeech libricss enrolment_list speaker_model speaker_model_config -- "$@"

asr_task=sa_asr
token_symbols=('<sc>')
tokens_dir=$datadir/tokens_$token_type$vocab_size
. ../../utils/asr.sh
. local/mixtures.sh
. ../../utils/systems.sh
. local/stitchers.sh
. local/stitch.sh

if stage 1 "Data"; then
  if [[ -z $librispeech ]]; then synthetic_corpus libricss; fi
  corpus_manifests "$corpus_name" manifests "${parts[@]/#/$librispeech_dir/}" -- \
    librispeech --corpus "$librispeech_dir" --parts "$(joined , "${parts[@]}")"
  asr_format librispeech "${parts[@]}"
  if [[ -n $libricss_dir ]]; then prepare_libricss; fi
fi

if stage 2 "Mixtures"; then
  make_voices
  make_profiles
  make_mixtures
  if [[ $windows_last == true ]]; then cut_training_mixtures; fi
  table1
fi

if stage 3 "Tokens"; then
  asr_tokens train_sa "$token_type" "$vocab_size"
fi

if stage 4 "Statistics"; then
  recogniser_configs
  mapfile -t sets <<<"$(recogniser_sets)"
  for set in "${sets[@]}"; do asr_stats "$recogniser_config" "$set" dev_sa "$token_type"; done
  compute_d_vectors "${sets[@]}" dev_sa
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
  write_tables
fi
