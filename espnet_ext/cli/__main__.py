"""``python -m espnet_ext.cli``: the same as ``espnet-ext``."""

from espnet_ext.cli import main

if __name__ == "__main__":  # worker processes import this module too
    main()
