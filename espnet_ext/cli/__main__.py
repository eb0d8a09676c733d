"""``python -m espnet_ext.cli``: the same as ``espnet-ext``."""

from espnet_ext.cli import main

main()
