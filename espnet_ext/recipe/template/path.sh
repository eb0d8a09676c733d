# shellcheck shell=bash
# What run.sh finds its programs by. Site-specific settings (modules, proxies) may go here.
. "$(dirname "${BASH_SOURCE[0]}")/../../utils/path.sh"
