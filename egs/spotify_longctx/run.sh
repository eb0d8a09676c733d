#!/usr/bin/env bash
# shellcheck disable=SC2154 # settings of the scale
# How much context an attention-based speech recogniser needs (Flynn & Ragni 2024, "P5"): training on podcasts with any context,
# decoding whole recordings by moving windows, evaluation on Earnings-22, TED-LIUM and Rev16.
# Makes figures and tables of the paper: prepares the data, trains the systems that they lack, decodes, scores, and puts the paper's
# numbers beside its own. Corpora that are not given are synthetic ones in the same layouts, except at scale full.
#
# Examples:
#   ./run.sh --figure 1 --seed 1,2,3                             # the synthetic corpora, contexts of 2.5 to 40 s
#   ./run.sh --table 1                                           # the longest context that fits, and the speed
#   ./run.sh --scale full --spotify DIR --tedlium DIR --earnings22 DIR --rev16 DIR --musan DIR --figure 1 --seed 1,2,3 --ngpu 1
#   ./run.sh --help
set -euo pipefail

# begin options
. "$(dirname "$0")/../../utils/options.sh" # those of all recipes, such as --scale; below are this one's own
# What to run
table=           # <T> 1: the paper's table; beam: beam search (not in the paper); several separated by commas, or all
figure=          # <F> number of a figure of the paper, several separated by commas, or all; 1 if no table is given either
rows=            # <a,b> points of the figures by name, such as 'Rev16 at 10 s'; all if empty
seed=1           # <N,N> seeds, separated by commas; the paper has three repeats
# Data
spotify=         # <DIR> podcasts: holds podcasts-transcripts, podcasts-audio and metadata.tsv; synthetic if empty
tedlium=         # <DIR> TED-LIUM 3: holds legacy; synthetic if empty
earnings22=      # <DIR> Earnings-22: holds metadata.csv, media and transcripts; synthetic if empty
rev16=           # <DIR> Rev16: holds verbatim_transcripts and media; synthetic if empty
musan=           # <DIR> MUSAN, whose music is the noise of figure 2; generated if empty
# end options

# begin stages
# 1 data            the corpora: synthetic, or yours, checked; Lhotse manifests and word times
# 2 format          Kaldi data dirs of whole recordings
# 3 tokens          word pieces
# 4 statistics      mean and deviation of each recording
# 5 language model  only for decodings that use one: an n-gram model over the word pieces
# 6 training        each system and seed that the figures and tables lack
# 7 decoding        test sets by each system, with moving windows
# 8 scoring         word error rates; for table 1, memory and speed
# 9 tables          results as JSON, Markdown and PNG, paper beside ours
# end stages

. "$(dirname "$0")/../../utils/recipe.sh" spotify tedlium earnings22 rev16 musan -- "$@"

if [[ $scale == full ]]; then
  for option in tedlium earnings22 rev16 musan; do
    [[ -n ${!option} ]] || die "--scale full needs --$option DIR; README.md says what it holds and how to get it"
  done
fi
wanted=${figure:+figure${figure//,/,figure}}
[[ $figure != all ]] || wanted=figure1,figure2,figure3,figure4,figure5
[[ $table != all ]] || table=1,beam
table=$wanted${wanted:+${table:+,}}$table
table=${table:-figure1}

synthetic=$datadir/corpus
manifest_dir=$datadir/manifests
tokens_dir=$datadir/tokens_$token_type$vocab_size
test_sets=(earnings22 tedlium rev16)
valid_set=dev
normaliser=whisper_english
# Podcasts of yours have no dev set: some recordings are held out.
dev_part=$([[ -n $spotify ]] && echo train || echo dev)
declare -A word_times=([train]=$manifest_dir/spotify_words_train.scp [dev]=$manifest_dir/spotify_words_$dev_part.scp)
declare -A zeroed=([tedlium]=$manifest_dir/tedlium_ignored_test.txt)
. ../../utils/asr.sh
. ../../utils/asr_long.sh
# Table 1 alone needs no data and no training.
[[ -n $plan ]] || ((stage > 8)) || stage=8

# Longest context in training and frames a second, of the four rows of table 1.
cost_of_context() {
  step --name "cost of long contexts" --log "$expdir/log/context.log" --output "$expdir/context.json" -- \
    "$python" local/bench_context.py --config "${context_configs[@]}" --seconds "$context_seconds" \
    --device "$( ((ngpu > 0)) && echo cuda || echo cpu)" --output "$expdir/context.json" --expdir "$expdir"
}

# prepare CORPUS PART FOLDER [OPTION]...
prepare() { corpus_manifests "$1, $2" "manifests_$1_$2" "$3" -- "$1" --corpus "$3" "${@:4}"; }

# Hold podcasts out for validation.
hold_out() {
  local podcasts=$datadir/podcasts
  step --name "held-out podcasts" --log "$datadir/log/hold_out.log" --input "$podcasts/wav.scp" --input "$podcasts/text" \
    --output "$datadir/dev/text" -- \
    "$python" -m espnet_ext.bin.data_dir subset "$podcasts" "$held_out" "$datadir/dev"
  awk 'NR == FNR {dev[$1] = 1; next} !($1 in dev) {print $1}' "$datadir/dev/wav.scp" "$podcasts/wav.scp" >"$datadir/log/train_list"
  step --name "podcasts to train on" --log "$datadir/log/train_set.log" --input "$podcasts/wav.scp" --input "$podcasts/text" \
    --output "$datadir/train/text" -- \
    "$python" -m espnet_ext.bin.data_dir subset --utt-list "$datadir/log/train_list" "$podcasts" "$datadir/train"
}

if stage 1 "Data"; then
  if [[ -z $spotify || -z $tedlium || -z $earnings22 || -z $rev16 ]]; then
    corpus=$synthetic synthetic_corpus spotify
  fi
  prepare spotify train "${spotify:-$synthetic/spotify}" "${spotify_options[@]+"${spotify_options[@]}"}"
  [[ -n $spotify ]] || prepare spotify dev "$synthetic/spotify-dev" --part dev
  prepare tedlium test "${tedlium:-$synthetic/TEDLIUM_release-3}" --parts test
  prepare earnings22 test "${earnings22:-$synthetic/earnings22}"
  prepare rev16 test "${rev16:-$synthetic/rev16}"
fi

if stage 2 "Format"; then
  if [[ -n $spotify ]]; then
    format_log=format_spotify asr_format spotify train=podcasts
    hold_out
  else
    format_log=format_spotify asr_format spotify train dev
  fi
  for name in "${test_sets[@]}"; do format_log=format_$name asr_format "$name" "test=$name"; done
fi

if stage 3 "Tokens"; then
  token_normalisation=nmt_nfkc_cf asr_tokens train "$token_type" "$vocab_size"
fi

if stage 4 "Statistics"; then
  statistics
fi

if stage 5 "Language model"; then
  ngram_model train "$ngram_order"
fi

if stage 6 "Training"; then
  each_system train_system
fi

if stage 7 "Decoding"; then
  decode_systems
fi

if stage 8 "Scoring"; then
  score_systems
  if [[ ,$table, == *,1,* ]]; then cost_of_context; fi
fi

if stage 9 "Tables"; then
  write_tables
fi
