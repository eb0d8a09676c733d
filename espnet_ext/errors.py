"""The exception for bad input."""


class InputError(Exception):
    """Bad input. The message says what is wrong, in which file and utterance, and what to do."""
