"""ESPnet's ``espnet2.bin.asr_inference`` with all plugins, modified shallow fusion (P2, Table 5) and packed models."""

from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.sharing.model_files import find_model
from espnet_ext.upstream.inference import get_parser, inference
from espnet_ext.upstream.with_plugins import with_plugins


def main(cmd: Sequence[str] | None = None) -> None:
    """Run ``espnet2.bin.asr_inference`` with our options; ``--model_tag`` may be a packed archive or folder.

    ESPnet would unpack it below its own package, and take what is there for an archive that has changed since.
    """
    options = get_parser().parse_args(cmd)
    if options.model_tag and Path(options.model_tag).exists():
        files = find_model(options.model_tag)
        if files.task != "asr":
            raise InputError(f"--model_tag {options.model_tag}: a model of the task {files.task}, not asr")
        options.model_tag = None
        paths = {
            "asr_train_config": files.config,
            "asr_model_file": files.model,
            "lm_train_config": files.lm_config,
            "lm_file": files.lm_file,
            "prior_file": files.prior_file,
        }
        for name, path in paths.items():
            if path is not None and getattr(options, name) is None:
                setattr(options, name, str(path))
    inference(options)


with_plugins(main, __name__)
