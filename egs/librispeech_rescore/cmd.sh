# shellcheck shell=bash
# How work is started. docs/clusters.md explains it; docs/gpus.md has an example for two nodes of Slurm.
# Commands as Kaldi's cmd.sh has them work, too: train_cmd="queue.pl --gpu 1", decode_cmd="queue.pl --mem 4G".
export train_cmd=""         # what comes before a training's command, such as "srun --nodes 2 --ntasks-per-node 1"
export train_cmd_options="" # ESPnet's flags for it, such as "--multiprocessing_distributed true"
export decode_cmd=""        # where statistics and decoding run, such as conf/parallel/slurm.yaml; --parallel replaces it
