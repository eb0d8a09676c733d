"""Find text normalisers for references and hypotheses by their names in results."""

from collections.abc import Callable

from espnet_ext.errors import InputError

NONE, LOWER, WHISPER_ENGLISH, LIBRISPEECH, MANDARIN_ENGLISH = NORMALISERS = (
    "none",
    "lower",
    "whisper_english",
    "librispeech",
    "mandarin_english",
)
FOR_MIXED_TEXT = (NONE, LOWER, MANDARIN_ENGLISH)


def find_normaliser(name: str) -> tuple[Callable[[str], str], str]:
    """Return a normaliser, and its name with its version, as the results give it.

    ``lower`` changes capitals only. ``whisper_english`` is the English normaliser of
    Whisper's paper (Radford et al. 2023, appendix C), which P5 uses: lower case, no
    punctuation and fillers, numbers in digits, contractions spelt out, one spelling.
    ``librispeech`` writes English as LibriSpeech's transcripts are: upper case, no
    punctuation, numbers and titles as words. ``mandarin_english`` is for mixed text:
    half-width forms, no noise marks such as ``<v-noise>``, upper case, no accents and
    no punctuation. Raises InputError: an unknown name, or a package is not installed.
    """
    if name == NONE:
        return (lambda text: text), NONE
    if name == LOWER:
        return str.lower, LOWER
    if name in (LIBRISPEECH, MANDARIN_ENGLISH):
        from espnet_ext.text import rules

        own = {LIBRISPEECH: rules.LIBRISPEECH, MANDARIN_ENGLISH: rules.MANDARIN_ENGLISH}
        return own[name], name
    if name != WHISPER_ENGLISH:
        raise InputError(
            f"there is no normaliser {name!r}: choose one of {', '.join(NORMALISERS)}"
        )
    from importlib.metadata import version

    try:
        from whisper_normalizer.english import EnglishTextNormalizer
    except ImportError as error:
        raise InputError(
            f"{name} needs the package whisper-normalizer: pip install "
            "whisper-normalizer"
        ) from error
    # Its rules may change with its releases, and with them the rate.
    release = version("whisper-normalizer")
    return EnglishTextNormalizer(), f"{name} (whisper-normalizer {release})"
