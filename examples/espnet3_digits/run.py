from importlib.util import find_spec

from omegaconf import OmegaConf

if find_spec("espnet3.systems.launch"):
    from espnet3.systems.esp2_asr.system import ASRSystem
    from espnet3.systems.launch import launch

    LENGTHS = "speech"
else:  # ESPnet 202610, whose collect_stats counts frames alone
    from egs3.TEMPLATE.asr.run import DEFAULT_STAGES, build_parser, main
    from espnet3.systems.asr.system import ASRSystem

    LENGTHS = "feats"

    def launch(system: type) -> None:
        main(build_parser(DEFAULT_STAGES).parse_args(), system)


if __name__ == "__main__":
    # What conf/ names as ${system:}, the system's package, and ${lengths:}, which
    # utterances are sorted by
    OmegaConf.register_new_resolver(
        "system", lambda: ASRSystem.__module__.rpartition(".")[0]
    )
    OmegaConf.register_new_resolver("lengths", lambda: LENGTHS)
    launch(ASRSystem)
