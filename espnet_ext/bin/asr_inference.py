"""Run ESPnet's ``asr_inference`` with all plugins and packed models.

It also has modified shallow fusion (P2, Table 5).
"""

from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.sharing.load import choose_search_options
from espnet_ext.sharing.model_files import find_model
from espnet_ext.upstream.inference import get_parser, inference
from espnet_ext.upstream.with_plugins import with_plugins


def main(cmd: Sequence[str] | None = None) -> None:
    """Run ``espnet2.bin.asr_inference`` with our options.

    ``--model_tag`` may be a packed archive or folder, whose search options are then the
    defaults.
    """
    parser = get_parser()
    options = parser.parse_args(cmd)
    # ESPnet would unpack an archive below its own package, take what is there for one
    # that has changed since, and search with its own defaults.
    if options.model_tag and Path(options.model_tag).exists():
        from espnet2.bin.asr_inference import Speech2Text

        files = find_model(options.model_tag)
        if files.task != "asr":
            raise InputError(
                f"--model_tag {options.model_tag}: a model of the task "
                f"{files.task}, not asr"
            )
        search = choose_search_options(files, {}, Speech2Text)
        # Again, so that what the command line has comes before the new defaults.
        parser.set_defaults(**files.options(), **search)
        options = parser.parse_args(cmd)
        options.model_tag = None
    inference(options)


with_plugins(main, __name__)
