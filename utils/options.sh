# shellcheck shell=bash disable=SC2034
# The options of all recipes' run.sh. Each names its own besides, at the lines `# ...` of the help, and may say more of
# these; parse_options.sh tells how.

# begin options
# What to run
table=1          # <T> number of a table of the paper, several separated by commas, or all
rows=            # <a,b> rows of the table by name; all if empty
scale=mini       # {smoke|mini|full} size of the models and of the synthetic corpus; full is the paper's
seed=1           # <N,N> seeds, separated by commas
# ...
stage=1          # first stage to run
stop_stage=9     # last stage to run
# Data
# ...
check_audio=auto # {auto|header|full} how the audio is checked: auto decodes all of a small corpus, reads the headers of a large one
# Resources
ngpu=0           # GPUs of one training
nj=2             # processes on this machine
parallel=        # <FILE> conf/parallel/*.yaml or a file of yours: statistics and decoding on a cluster
# Folders
expdir=          # <DIR> systems and results; exp/<scale> if empty, exp/<scale>-<corpus> for another corpus than the scale's own
datadir=         # <DIR> data dirs; data/<scale> or data/<scale>-<corpus> if empty
# end options
