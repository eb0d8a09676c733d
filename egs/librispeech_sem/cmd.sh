# shellcheck shell=bash
# How this recipe starts its trainings. Settings of your own may follow: train_cmd, train_cmd_options, as explained there.
. ../../utils/cmd.sh
