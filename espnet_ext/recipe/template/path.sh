# shellcheck shell=bash
# Sets PATH for run.sh. Site-specific settings (modules, proxies) may go here.
# shellcheck source=/dev/null
. "$(dirname "${BASH_SOURCE[0]}")/../../utils/path.sh"
