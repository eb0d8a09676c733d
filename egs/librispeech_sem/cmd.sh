# shellcheck shell=bash disable=SC2034
# How training is spread over GPUs and nodes: ESPnet's own flags, appended to its command. README, "Clusters", explains them.
#
#   several GPUs of this machine:  train_cmd_options=(--multiprocessing_distributed true)
#   two nodes by Slurm:            train_cmd_options=(--multiprocessing_distributed true --dist_launcher slurm --dist_world_size 2 --dist_init_method file:///shared/.dist_init)
#
# Work over shards (statistics, decoding) goes to a cluster by --parallel conf/parallel/slurm.yaml instead.
train_cmd_options=()
if ((${ngpu:?} > 1)); then
  train_cmd_options=(--multiprocessing_distributed true)
fi
