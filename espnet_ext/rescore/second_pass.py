"""A second pass over N-best lists: add scores of a language model, tune their weight, and re-rank the lists."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from espnet_ext.data.kaldi_tables import write_table
from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import NBest, word_errors, words_of_reference, write_nbest
from espnet_ext.nbest.sources import read_lists
from espnet_ext.nbest.statistics import oracle_errors
from espnet_ext.rescore.interpolation import (
    ErrorCurve,
    Tuned,
    check_weight,
    read_weight,
    rerank,
    tune,
    weight_of,
    write_curve,
    write_tuned,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Log-probabilities of the hypotheses of each list, in the order given.
ListScorer = Callable[[Sequence[NBest]], list[list[float]]]
# The figure's axis of lambda is logarithmic. It reaches to the first and last corner of the curve, but at most this
# factor away from the tuned weight.
REACH = 1000.0
MARGIN = 2.0


@dataclass(frozen=True)
class SecondPass:
    """What to rescore, and where the interpolation weight comes from: exactly one of the last three.

    Attributes:
        nbest: the lists, as :func:`espnet_ext.nbest.sources.read_lists` takes them.
        output: folder for the results.
        name: name of the scores that are added.
        reference: Kaldi ``text`` with the references, if the lists have none.
        tune_references: a Kaldi ``text`` for each of ``tune_on``, or none at all.
        tune_on: development lists; several are used jointly.
        weight: lambda of P3, eq. 1.
        weight_file: ``interpolation.json`` of an earlier tuning.
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
    """A language model of Hugging Face ``transformers`` that is loaded after everything else has been checked.

    Attributes:
        name: folder, or name on the hub.
        scorer, pooling, casing: see :func:`espnet_ext.rescore.scorers.load_lm`; None for its default.
    """

    name: str
    scorer: str | None = None
    pooling: str | None = None
    casing: str | None = None

    def load(self, ngpu: int = 0, say: Callable[[str], None] = print) -> ListScorer:
        """Load the model, and return a function that scores lists with it; 1 as ``ngpu`` takes a GPU.

        Raises:
            InputError: there is no such model, or no GPU.
        """
        # torch and transformers take seconds to import: bad lists are refused without them
        from espnet_ext.rescore.scorers import load_lm, score_lists
        from espnet_ext.rescore.training import device_for

        device = device_for(ngpu)
        model = load_lm(self.name, scorer=self.scorer, pooling=self.pooling, casing=self.casing).to(device).eval()

        def score(lists: Sequence[NBest]) -> list[list[float]]:
            texts = [[hyp.text for hyp in nbest.hyps] for nbest in lists]
            if warning := model.casing_warning(text for own in texts for text in own):
                say(warning)
            return score_lists(model, texts, names=[nbest.utt_id for nbest in lists])

        return score


@dataclass(frozen=True)
class Outcome:
    """The result of a second pass.

    Attributes:
        weight: lambda.
        tuned: how lambda was tuned; None if it was given.
        before, after: the lists before and after re-ranking, both with the added scores.
    """

    weight: float
    tuned: Tuned | None
    before: list[NBest]
    after: list[NBest]

    @property
    def changed(self) -> int:
        """Number of lists whose best text has changed."""
        return sum(old.hyps[0].text != new.hyps[0].text for old, new in zip(self.before, self.after, strict=True))

    @property
    def can_be_scored(self) -> bool:
        """Whether all lists have references with words."""
        return all((nbest.ref or "").split() for nbest in self.before)


def rescore(job: SecondPass, model: LanguageModel, *, ngpu: int = 0, say: Callable[[str], None] = print) -> Outcome:
    """Rescore lists with a language model, and print what has changed.

    Raises:
        InputError: as :func:`second_pass`.
    """
    outcome = second_pass(job, lambda: model.load(ngpu, say))
    for line in outcome_lines(outcome):
        say(line)
    return outcome


def second_pass(job: SecondPass, load: Callable[[], ListScorer]) -> Outcome:
    """Rescore lists, and write into ``job.output``:

    - ``nbest.jsonl``: the re-ranked lists, each hypothesis with the first pass's score and the added one;
    - ``text``: the best hypotheses as a Kaldi table, and ``ref`` if all lists have references;
    - after tuning, ``interpolation.json`` (the weight), ``curve.json`` and ``curve.png`` (the errors at every weight).

    All lists are read and checked before ``load`` loads the scorer.

    Raises:
        InputError: what the readers, the scorer and the tuning refuse; the lists already have scores of that name; not
            exactly one source of the weight is given.
    """
    if (bool(job.tune_on), job.weight is not None, job.weight_file is not None).count(True) != 1:
        raise InputError(
            "the interpolation weight: tune it on lists, give it, or give a file with it: exactly one of these"
        )
    lists = _without_scores(job.nbest, read_lists(job.nbest, job.reference), job.name)
    development = _read_development(job)
    weight = read_weight(job.weight_file) if job.weight_file else job.weight
    if weight is not None:
        check_weight(weight)
    score = load()
    scored = add_scores(development, job.name, score) if development else []
    before = scored if development == lists else add_scores(lists, job.name, score)
    tuned = None
    if weight is None:
        tuned, curve = tune(scored, job.name, [str(path) for path in job.tune_on])
        weight = tuned.weight
        write_tuning(job.output, tuned, curve)
    after = [rerank(nbest, job.name, weight) for nbest in before]
    write_lists(job.output, after)
    return Outcome(weight, tuned, before, after)


def outcome_lines(outcome: Outcome) -> list[str]:
    """What a second pass did, as lines to print: the weight, and error rates if there are references."""
    lines = [f"lambda {outcome.weight:.6g}"]
    if outcome.tuned:
        tuned = outcome.tuned
        low, high = tuned.interval
        lines.append(
            f"on {tuned.lists} development lists: WER {_rate(tuned.errors, tuned.words)} from {low:.6g} to {high:.6g}, "
            f"{_rate(tuned.language_model_errors, tuned.words)} with the language model alone, "
            f"{_rate(tuned.first_pass_errors, tuned.words)} with the first pass alone"
        )
    lines.append(f"{len(outcome.after)} lists; the best hypothesis has changed in {outcome.changed} of them")
    if outcome.can_be_scored:
        (before, words), (after, _) = best_errors(outcome.before), best_errors(outcome.after)
        bound = oracle_errors(outcome.before)[-1]
        rates = f"WER {_rate(before, words)} -> {_rate(after, words)} (oracle {_rate(bound, words)})"
        lines.append(f"{rates} of {words} words")
    return lines


def _rate(errors: int, words: int) -> str:
    return f"{100 * errors / words:.2f} %"


def add_scores(lists: Sequence[NBest], name: str, score: ListScorer) -> list[NBest]:
    """The lists, in the same order, with the scorer's log-probabilities as ``scores[name]`` of each hypothesis.

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
    """Word errors of the best hypotheses, and the number of words in the references.

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
    from espnet_ext.results.pages.plot_style import save_png  # matplotlib takes a second to import

    write_tuned(folder / "interpolation.json", tuned)
    write_curve(folder / "curve.json", curve)
    save_png(draw_curve(curve, tuned, ", ".join(Path(path).stem for path in tuned.tuned_on)), folder / "curve.png")


def draw_curve(curve: ErrorCurve, tuned: Tuned, name: str) -> "Figure":
    """The exact curve of word error rate over lambda, with the tuned weight and the rates at both ends.

    The x axis is lambda (logarithmic), the y axis the word error rate in percent.

    Args:
        curve: with at least one word.
        tuned: the weight to mark.
        name: what it was tuned on, for the title.
    """
    import matplotlib
    from matplotlib.figure import Figure

    from espnet_ext.results.pages.plot_style import BLUE, STYLE, VERMILLION

    low, high = shown_range(curve, tuned)
    inside = np.array([weight_of(corner) for corner in curve.corners[1:-1]])
    rates = 100.0 * np.array(curve.errors) / curve.words
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.8, 4.4), layout="constrained")
        axes = figure.subplots()
        axes.set_xscale("log")
        # The outer pieces reach to 0 and to infinity, which a logarithmic axis cannot show.
        edges = np.concatenate(([min([low, *inside[:1]])], inside, [max([high, *inside[-1:]])]))
        axes.stairs(rates, edges, baseline=None, color=BLUE, label="word error rate")
        for rate, label, line in (
            (rates[0], r"language model alone ($\lambda = 0$)", ":"),
            (rates[-1], r"first pass alone ($\lambda \to \infty$)", "--"),
        ):
            axes.axhline(rate, color="0.4", linestyle=line, linewidth=1.0, label=f"{label}: {rate:.2f} %")
        best = 100.0 * tuned.errors / tuned.words
        label = rf"tuned: $\lambda = {tuned.weight:.3g}$, {best:.2f} %"
        axes.plot(tuned.weight, best, "o", color=VERMILLION, markersize=5, label=label)
        axes.set_xlim(low, high)
        axes.grid(color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel(r"Interpolation weight $\lambda$ of the first pass")
        axes.set_ylabel("Word error rate (%)")
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        figure.suptitle(f"{name}: {tuned.lists:,} N-best lists, {tuned.words:,} words", parse_math=False)
        return figure


def shown_range(curve: ErrorCurve, tuned: Tuned) -> tuple[float, float]:
    """The range of lambda in the figure: from below the first corner to above the last, within reach of the weight.

    >>> tuned = Tuned(1.0, (0.25, 9.0), 2, 9, 3, 2, 1, "lm")
    >>> shown_range(ErrorCurve((0.0, 0.2, 1.0), (3, 2), 9), tuned)
    (0.125, 2.0)
    """
    corners = [weight_of(corner) for corner in curve.corners[1:-1]] or [tuned.weight]
    low = max(min(corners[0], tuned.weight), tuned.weight / REACH) / MARGIN
    high = min(max(corners[-1], tuned.weight), tuned.weight * REACH) * MARGIN
    return low, high


def _read_development(job: SecondPass) -> list[NBest]:
    if job.tune_references and len(job.tune_references) != len(job.tune_on):
        raise InputError(
            f"{len(job.tune_references)} references for {len(job.tune_on)} development sets: give one for each, or none"
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
    """Refuse lists that already have scores of this name, from the first pass or another model."""
    for nbest in lists:
        if any(name in hyp.scores for hyp in nbest.hyps):
            raise InputError(
                f"{path}: {nbest.utt_id} has scores named {name} already: give the new ones another --name"
            )
    return lists
