# shellcheck shell=bash
# What run.sh finds its programs by. Site-specific settings (modules, proxies) may go here.
# shellcheck source=/dev/null
. "$(dirname "${BASH_SOURCE[0]}")/../../utils/path.sh"
