"""A second pass over N-best lists: language-model scores are added, their weight is tuned, and the lists re-ranked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from espnet_ext.data.kaldi import write_table
from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import NBest, word_errors, words_of_reference, write_nbest
from espnet_ext.nbest.sources import read_lists
from espnet_ext.rescore.interpolation import (
    ErrorCurve,
    Tuned,
    check_weight,
    read_weight,
    rerank,
    tune,
    write_curve,
    write_tuned,
)

# Log-probabilities of the hypotheses of each list, in the order given.
ListScorer = Callable[[Sequence[NBest]], list[list[float]]]


@dataclass(frozen=True)
class SecondPass:
    """What to rescore, and how the interpolation weight is found: by exactly one of the last three.

    Attributes:
        nbest: the lists, as :func:`espnet_ext.nbest.sources.read_lists` takes them.
        output: folder for the results.
        name: of the scores that are added.
        reference: Kaldi ``text`` with the lists' references, if they do not hold them.
        tune_references: a Kaldi ``text`` for each of ``tune_on``, or none.
        tune_on: development lists; several are tuned on jointly.
        weight: lambda of P3, eq. 1.
        weight_file: where an earlier tuning has stored it.
    """

    nbest: Path
    output: Path
    name: str
    reference: Path | None = None
    tune_references: tuple[Path, ...] = ()
    tune_on: tuple[Path, ...] = ()
    weight: float | None = None
    weight_file: Path | None = None


@dataclass(frozen=True)
class LanguageModel:
    """A language model of Hugging Face ``transformers``, to be loaded when all else has been checked.

    Attributes:
        name: folder, or name on the hub.
        scorer, pooling, casing: see :func:`espnet_ext.rescore.scorers.load_lm`; None is its default.
        ngpu: 0, or 1 to score on a GPU.
    """

    name: str
    scorer: str | None = None
    pooling: str | None = None
    casing: str | None = None
    ngpu: int = 0

    def load(self) -> ListScorer:
        """Load the model, and make a function that scores lists with it.

        Raises:
            InputError: there is no such model, or no GPU.
        """
        import torch  # it takes seconds, like transformers: bad lists are refused without it

        if self.ngpu and not torch.cuda.is_available():
            raise InputError("there is no GPU that torch can use: score on the CPU (--ngpu 0)")
        from espnet_ext.rescore.scorers import load_lm, score_lists

        model = load_lm(self.name, scorer=self.scorer, pooling=self.pooling, casing=self.casing)
        model = model.to("cuda" if self.ngpu else "cpu").eval()

        def score(lists: Sequence[NBest]) -> list[list[float]]:
            texts = [[hyp.text for hyp in nbest.hyps] for nbest in lists]
            return score_lists(model, texts, names=[nbest.utt_id for nbest in lists])

        return score


@dataclass(frozen=True)
class Outcome:
    """What a second pass did.

    Attributes:
        weight: lambda.
        tuned: how it was tuned, if it was.
        before, after: the lists as they were and re-ranked, both with the added scores.
    """

    weight: float
    tuned: Tuned | None
    before: list[NBest]
    after: list[NBest]

    @property
    def changed(self) -> int:
        """Lists whose best text is another one now."""
        return sum(old.hyps[0].text != new.hyps[0].text for old, new in zip(self.before, self.after, strict=True))

    @property
    def can_be_scored(self) -> bool:
        """Do all lists have references with words?"""
        return all((nbest.ref or "").split() for nbest in self.before)


def second_pass(job: SecondPass, load: Callable[[], ListScorer]) -> Outcome:
    """Rescore, and write into ``job.output``:

    - ``nbest.jsonl``: the lists re-ranked, each hypothesis with its first pass's score and the added one;
    - ``text``: the best hypotheses as Kaldi table, and ``ref`` where all lists have references;
    - after tuning, ``interpolation.json`` (the weight), ``curve.json`` and ``curve.png`` (the errors over all weights).

    All lists are read and checked before ``load`` makes the scorer.

    Raises:
        InputError: what the readers, the scorer and the tuning refuse; scores of that name are there already; the
            weight is to be found in several ways, or in none.
    """
    if (bool(job.tune_on), job.weight is not None, job.weight_file is not None).count(True) != 1:
        raise InputError("the interpolation weight: tune it on lists, or give it, or a file with it: one of these")
    lists = _without_scores(job.nbest, read_lists(job.nbest, job.reference), job.name)
    development = _read_development(job)
    weight = read_weight(job.weight_file) if job.weight_file else job.weight
    if weight is not None:
        check_weight(weight)
    score = load()
    tuned = None
    if development:
        scored = add_scores(development, job.name, score)
        tuned, curve = tune(scored, job.name, [str(path) for path in job.tune_on])
        weight = tuned.weight
    before = scored if development == lists else add_scores(lists, job.name, score)
    after = [rerank(nbest, job.name, weight) for nbest in before]
    if tuned:
        write_tuning(job.output, tuned, curve)
    write_lists(job.output, after)
    return Outcome(weight, tuned, before, after)


def add_scores(lists: Sequence[NBest], name: str, score: ListScorer) -> list[NBest]:
    """The lists with the scorer's log-probabilities among each hypothesis's ``scores``, in the same order.

    Raises:
        InputError: a score is not finite, or what ``score`` refuses.
    """
    return [
        replace(
            nbest,
            hyps=tuple(
                replace(hyp, scores={**hyp.scores, name: added}) for hyp, added in zip(nbest.hyps, own, strict=True)
            ),
        )
        for nbest, own in zip(lists, score(lists), strict=True)
    ]


def best_errors(lists: Sequence[NBest]) -> tuple[int, int]:
    """Word errors of the best hypotheses, and words in the references.

    Raises:
        InputError: a list has no reference.
    """
    return sum(word_errors(nbest)[0] for nbest in lists), sum(len(words_of_reference(nbest)) for nbest in lists)


def write_lists(folder: Path, lists: Sequence[NBest]) -> None:
    """Write ``nbest.jsonl``, ``text`` with the best hypotheses, and ``ref`` if all lists have references."""
    write_nbest(folder / "nbest.jsonl", lists)
    write_table(folder / "text", {nbest.utt_id: nbest.hyps[0].text for nbest in lists})
    references = {nbest.utt_id: nbest.ref for nbest in lists if nbest.ref is not None}
    if len(references) == len(lists):
        write_table(folder / "ref", references)


def write_tuning(folder: Path, tuned: Tuned, curve: ErrorCurve) -> None:
    """Write ``interpolation.json``, ``curve.json`` and ``curve.png``."""
    from espnet_ext.rescore.figures import draw_curve
    from espnet_ext.results.figures import save_png  # matplotlib takes a second to import

    write_tuned(folder / "interpolation.json", tuned)
    write_curve(folder / "curve.json", curve)
    save_png(draw_curve(curve, tuned, ", ".join(Path(path).stem for path in tuned.tuned_on)), folder / "curve.png")


def _read_development(job: SecondPass) -> list[NBest]:
    if job.tune_references and len(job.tune_references) != len(job.tune_on):
        raise InputError(
            f"{len(job.tune_references)} references for {len(job.tune_on)} development sets: give one each, or none"
        )
    references = job.tune_references or (None,) * len(job.tune_on)
    lists = []
    for path, reference in zip(job.tune_on, references, strict=True):
        own = _without_scores(path, read_lists(path, reference), job.name)
        try:
            best_errors(own)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        lists += own
    return lists


def _without_scores(path: Path, lists: list[NBest], name: str) -> list[NBest]:
    """Refuse lists that have scores of this name: they may be the first pass's, or another model's."""
    for nbest in lists:
        if any(name in hyp.scores for hyp in nbest.hyps):
            raise InputError(
                f"{path}: {nbest.utt_id} has scores named {name} already: give the new ones another --name"
            )
    return lists
