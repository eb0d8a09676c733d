"""ESPnet's ``espnet2.bin.asr_inference`` with all plugins, modified shallow fusion (P2,
Table 5) and packed models.
"""

from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.sharing.load import choose_search_options
from espnet_ext.sharing.model_files import find_model
from espnet_ext.upstream.inference import get_parser, inference
from espnet_ext.upstream.with_plugins import with_plugins


def main(cmd: Sequence[str] | None = None) -> None:
    """Run ``espnet2.bin.asr_inference`` with our options; ``--model_tag`` may be a
    packed archive or folder.

    Its search options are then the defaults. ESPnet would unpack it below its own
    package, take what is there for an archive that has changed since, and search with
    its own defaults.
    """
    parser = get_parser()
    options = parser.parse_args(cmd)
    if options.model_tag and Path(options.model_tag).exists():
        from espnet2.bin.asr_inference import Speech2Text

        files = find_model(options.model_tag)
        if files.task != "asr":
            raise InputError(
                f"--model_tag {options.model_tag}: a model of the task "
                f"{files.task}, not asr"
            )
        parser.set_defaults(
            **files.options(), **choose_search_options(files, {}, Speech2Text)
        )
        options = parser.parse_args(cmd)
        options.model_tag = None
    inference(options)


with_plugins(main, __name__)
