# shellcheck shell=bash
# How trainings are started. docs/clusters.md explains it, with an example for two nodes of a Slurm cluster.
# Statistics and decoding run on a cluster with --parallel conf/parallel/slurm.yaml instead.
export train_cmd=""         # what comes before a training's command, such as "srun --nodes 2 --ntasks-per-node 1"
export train_cmd_options="" # ESPnet's flags for it, such as "--multiprocessing_distributed true"
