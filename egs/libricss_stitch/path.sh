# shellcheck shell=bash
# What run.sh finds its programs by. Site-specific settings (modules, proxies) may go here.
. ../../utils/path.sh
