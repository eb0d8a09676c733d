# shellcheck shell=bash disable=SC2034
# How training is spread over GPUs and nodes: by ESPnet's own flags. docs/clusters.md explains them.
#
#   train_cmd          what comes before the training command, such as srun
#   train_cmd_options  flags appended to it
#
# Two nodes of a Slurm cluster with four GPUs each (the file of the rendezvous must be new at each start):
#   train_cmd=(srun --nodes 2 --ntasks-per-node 1 --gres gpu:4)
#   train_cmd_options=(--multiprocessing_distributed true --dist_launcher slurm --dist_init_method "file://$PWD/.dist_$$")
#
# Work over shards (statistics, decoding) goes to a cluster by --parallel conf/parallel/slurm.yaml instead.
train_cmd=()
train_cmd_options=()
if ((${ngpu:?} > 1)); then
  train_cmd_options=(--multiprocessing_distributed true)
fi
