"""Read N-best lists from the output of ESPnet's inference.

``espnet2.bin.asr_inference --nbest n`` writes
``<output_dir>/{k}best_recog/{text,token,token_int,score}`` for k up to n; ``asr.sh``
runs several jobs, each in ``logdir/output.<job>``, and merges only their best
hypotheses.

A score is a printed tensor, ``tensor(-12.3456)``, a weighted sum of the search's
log-probabilities. A file ``scores`` beside it, with ``str(hyp.scores)`` or JSON as
published lists have it, has its parts. ``text_nospecial``, without the marks of the
task s2t, comes before ``text``.
"""

import re
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.text.nbest import Hypothesis, NBest, join_lines, rank_lists

# Where the folders of jobs lie, if {k}best_recog is not in the folder itself: below
# asr.sh's logdir, below its decoding folder, below that of our own decoding (which
# merges N-best lists but not a 1-best); and where published lists have them.
PUBLISHED = "raw_hypotheses"
_JOBS = ("output.*", "logdir/output.*", "log/output.*", PUBLISHED)
_RECOG = re.compile(r"([1-9][0-9]*)best_recog")  # the rank
_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?|[-+]?inf(?:inity)?|nan"
# A tensor of one number, maybe with device=... or dtype=..., or a plain number.
_ARGUMENTS = r"(?:,\s*[a-z_]+=[^()]*)?"
_VALUE = re.compile(
    rf"(?:tensor|np\.float[0-9]+)\(\[?\s*({_NUMBER})\s*\]?{_ARGUMENTS}\)|({_NUMBER})",
    re.IGNORECASE,
)
# Its first and third group are the name and the value, the second a quote around it.
_PART = re.compile(
    rf"""\s*["']([^"']+)["']\s*:\s*(["']?)({_VALUE.pattern})\2\s*(?:,|$)""",
    re.IGNORECASE,
)


def read_espnet_output(folder: str | Path) -> list[NBest]:
    """Read the N-best lists of one decoding, sorted by utterance, without references.

    ``folder`` holds ``{k}best_recog``; or ``output.*`` with them; or ``logdir`` or
    ``log`` with ``output.*``; or ``raw_hypotheses``. An utterance that is too short for
    the encoder has the text ``" "`` with the score 0.0 n times: n empty hypotheses.
    """
    ranked: dict[str, dict[int, Hypothesis]] = {}
    for job in _find_jobs(Path(folder)):
        found: dict[str, dict[int, Hypothesis]] = {}
        for rank, recog in _list_recog_folders(job):
            for utterance, hypothesis in _read_recog(recog).items():
                found.setdefault(utterance, {})[rank] = hypothesis
        _require_keys(job, found)
        # A decoding with another number of jobs leaves output.33 of one with more.
        if twice := sorted(found.keys() & ranked.keys()):
            raise InputError(
                f"{job}: {twice[0]} is also in another job's output: remove the "
                "stale one"
            )
        ranked |= found
    return rank_lists(folder, ranked)


def parse_score(text: str) -> float:
    """Return the number in a score as ESPnet prints it."""
    match = _VALUE.fullmatch(text.strip())
    if not match:
        raise InputError(
            f"{text!r} is not a score as ESPnet prints it, such as tensor(-12.3456)"
        )
    return float(match[1] or match[2])


def parse_scores(text: str) -> dict[str, float]:
    """Return the named parts in a printed dictionary of scores; JSON works too.

    >>> parse_scores("{'decoder': tensor(-3.25), 'ctc': tensor(-1., device='cuda:0')}")
    {'decoder': -3.25, 'ctc': -1.0}
    >>> parse_scores('{"decoder": "tensor(-0.3654)", "lm": "tensor(-77.3508)"}')
    {'decoder': -0.3654, 'lm': -77.3508}
    """
    # Not ast.literal_eval: tensor(...) is a call.
    inside = text.strip()
    parts: dict[str, float] = {}
    if inside.startswith("{") and inside.endswith("}"):
        inside = inside[1:-1].strip()
        while match := _PART.match(inside):
            if match[1] in parts:
                raise InputError(f"{text!r} has {match[1]} twice")
            parts[match[1]] = parse_score(match[3])
            inside = inside[match.end() :]
    if inside or not text.strip():
        raise InputError(
            f"{text!r} is not a dictionary of scores, such as {{'ctc': "
            f"tensor(-1.2345)}}"
        )
    return parts


def is_espnet_output(path: Path) -> bool:
    """Tell whether a folder has hypotheses of a decoding in it."""
    return path.is_dir() and any(
        True for place in (".", *_JOBS) for _ in path.glob(f"{place}/*best_recog")
    )


def find_published_references(folder: Path) -> Path | None:
    """Return the references that published lists have beside ``raw_hypotheses``."""
    folder = folder.parent if folder.name == PUBLISHED else folder
    references = folder / "references" / "ref_wer.trn"
    return references if references.is_file() else None


def _find_jobs(folder: Path) -> list[Path]:
    """Find the folders with ``{k}best_recog``: one, or one of each job."""
    if not folder.is_dir():
        raise InputError(
            f"{folder}: no such folder: give the output folder of a decoding"
        )
    if _list_recog_folders(folder):
        _refuse_other_lists(folder)
        return [folder]
    for pattern in _JOBS:
        jobs = sorted(path for path in folder.glob(pattern) if path.is_dir())
        if empty := [job for job in jobs if not _list_recog_folders(job)]:
            raise InputError(
                f"{empty[0]}: this job left no hypotheses: read its log, and "
                "decode again"
            )
        if jobs:
            return jobs
    raise InputError(
        f"{folder}: no {{n}}best_recog here, nor in {', '.join(_JOBS)}: decode "
        "with --nbest 10 or so"
    )


def _refuse_other_lists(folder: Path) -> None:
    """Refuse hypotheses in a folder that others below it would be left out for."""
    own = _list_recog_folders(folder)
    for pattern in _JOBS:
        for job in sorted(path for path in folder.glob(pattern) if path.is_dir()):
            others = _list_recog_folders(job)
            # Merged lists have as many ranks as the jobs' that they were merged from;
            # published ones are merged, and never lie beside others.
            if len(others) > len(own) or (others and pattern == PUBLISHED):
                raise InputError(
                    f"{own[-1][1]}, {others[-1][1]}: which are the lists? Move one of "
                    "the two away with its like, or give the folder of the one"
                )


def _list_recog_folders(job: Path) -> list[tuple[int, Path]]:
    """List the folders of hypotheses with their ranks: 2 before 10."""
    found = []
    for path in job.iterdir():
        if match := _RECOG.fullmatch(path.name):
            found.append((int(match[1]), path))
    return sorted(found)


def _read_recog(recog: Path) -> dict[str, Hypothesis]:
    if not (recog / "text").exists():
        raise InputError(
            f"{recog / 'text'}: no such file: only single-speaker recognition "
            "with a tokenizer writes it"
        )
    plain = recog / "text_nospecial"
    texts = read_table(plain if plain.exists() else recog / "text")
    scores = read_table(recog / "score")
    # ESPnet itself writes the total alone.
    parts = dict.fromkeys(texts, "{}")
    if (recog / "scores").exists():
        parts = read_table(recog / "scores")
    for name, table in (("score", scores), ("scores", parts)):
        if odd := sorted(texts.keys() ^ table.keys()):
            raise InputError(
                f"{recog}: {odd[0]} is in only one of text and {name}: was it cut "
                "short? decode again"
            )
    hypotheses = {}
    for utterance, text in texts.items():
        try:
            score = parse_score(scores[utterance])
            named = parse_scores(parts[utterance])
        except InputError as error:
            raise InputError(f"{recog}: {utterance}: {error}: decode again") from None
        hypotheses[utterance] = Hypothesis(join_lines(text), score, named)
    return hypotheses


def _require_keys(job: Path, found: dict[str, dict[int, Hypothesis]]) -> None:
    """Refuse the output of a killed job, which lacks some of its utterances."""
    # asr.sh lists the utterances of each job beside its output.
    keys = job.parent / f"keys.{job.name.removeprefix('output.')}.scp"
    if not (job.name.startswith("output.") and keys.exists()):
        return
    missing = [utterance for utterance in read_table(keys) if utterance not in found]
    if missing:
        raise InputError(
            f"{job}: {missing[0]} of {keys.name} has no hypotheses: the job has "
            "not finished; run again"
        )
