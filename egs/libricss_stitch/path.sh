# shellcheck shell=bash
# Sets PATH for run.sh. Site-specific settings (modules, proxies) may go here.
. "$(dirname "${BASH_SOURCE[0]}")/../../utils/path.sh"
