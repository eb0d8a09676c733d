"""A second pass over N-best lists: add scores of language models, tune all weights, and re-rank the lists."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import write_table
from espnet_ext.nbest.lists import NBest, word_errors, words_of_reference, write_nbest
from espnet_ext.nbest.sources import AUTO, read_lists, warnings_of
from espnet_ext.nbest.statistics import oracle_errors
from espnet_ext.rescore.interpolation import (
    FIRST_PASS,
    LENGTH,
    WITHOUT_END,
    ErrorCurve,
    Tuned,
    Weights,
    check_weights,
    read_weights,
    rerank,
    write_curves,
    write_tuned,
)
from espnet_ext.rescore.places import begin_output, check_output, check_place
from espnet_ext.rescore.tuning import END_CHOICES, parts_of, tune_scores

# New scores of each hypothesis of each list, by name, in the order given; None for a hypothesis that is left out.
NewScores = Mapping[str, float] | None
ListScorer = Callable[[Sequence[NBest]], list[list[NewScores]]]


@dataclass(frozen=True)
class SecondPass:
    """What to rescore, and where the weights come from: exactly one of ``tune_on``, ``weights`` and ``weight_file``.

    Attributes:
        nbest: the lists, as :func:`espnet_ext.nbest.sources.read_lists` takes them.
        output: folder for the results.
        reference: Kaldi ``text`` with the references, if the lists have none.
        form: format of all lists.
        tune_references: a Kaldi ``text`` for each of ``tune_on``, or none at all.
        tune_on: development lists; several are used jointly.
        parts: tune a weight for each part of the first pass, in place of its total.
        length: tune a bonus for each word.
        end: one of ``END_CHOICES``.
        weights: of scores by name; language models that are not named have 1.
        weight_file: ``interpolation.json`` of an earlier tuning.
    """

    nbest: Path
    output: Path
    reference: Path | None = None
    form: str = AUTO
    tune_references: tuple[Path, ...] = ()
    tune_on: tuple[Path, ...] = ()
    parts: bool = False
    length: bool = False
    end: str = "with"
    weights: Weights = field(default_factory=dict)
    weight_file: Path | None = None


@dataclass(frozen=True)
class LanguageModel:
    """A language model of Hugging Face ``transformers`` that is loaded after everything else has been checked.

    Attributes:
        path: folder, or name on the hub.
        label: name of the scores that it adds.
        scorer, pooling, casing, dtype: see :func:`espnet_ext.rescore.models.scorers.load_lm`; None for its default.
        positions: most tokens of a forward pass; None for the default.
        prompt: text that the model reads as it is, before the context of each list and its hypotheses; None: what it
            was trained with.
        skip_long: leave out hypotheses with more tokens than the model takes; otherwise they are refused.
    """

    path: str
    label: str
    scorer: str | None = None
    pooling: str | None = None
    casing: str | None = None
    dtype: str | None = None
    positions: int | None = None
    prompt: str | None = None
    skip_long: bool = False

    def load(self, ngpu: int = 0, say: Callable[[str], None] = print) -> ListScorer:
        """Load the model, and return a function that scores lists with it; 1 as ``ngpu`` takes a GPU.

        Raises:
            InputError: there is no such model, or no GPU.
        """
        # torch and transformers take seconds to import: bad lists are refused without them
        from espnet_ext.rescore.models.scorers import load_lm, score_hypotheses
        from espnet_ext.rescore.processes import device_for, map_shared

        device = device_for(ngpu)
        how = self.scorer, self.pooling, self.casing, self.dtype, self.prompt
        model = load_lm(self.path, *how).to(device).eval()
        model.budget = self.positions or model.budget

        def score(lists: Sequence[NBest]) -> list[list[NewScores]]:
            found = map_shared(own_scores, lists)
            total, skipped = sum(map(len, found)), sum(scores is None for own in found for scores in own)
            if skipped == total:
                raise InputError(
                    f"{self.label}: no hypothesis fits into the {model.longest} tokens that the model takes: give it a "
                    "shorter prompt or context, or take another model"
                )
            if skipped:
                say(f"{self.label}: {skipped} of {total} hypotheses are too long for the model and left out")
            return found

        def own_scores(lists: Sequence[NBest]) -> list[list[NewScores]]:
            texts = [[hyp.text for hyp in nbest.hyps] for nbest in lists]
            if warning := model.casing_warning(text for own in texts for text in own):
                say(warning)
            names = [nbest.utt_id for nbest in lists]
            contexts = [nbest.context for nbest in lists]
            sums = score_hypotheses(model, texts, names, contexts=contexts, skip_long=self.skip_long)
            return [[None if score is None else self._named(*score) for score in own] for own in sums]

        return score

    def _named(self, total: float, end: float | None) -> dict[str, float]:
        return {self.label: total} | ({} if end is None else {f"{self.label}{WITHOUT_END}": total - end})


@dataclass(frozen=True)
class Outcome:
    """The result of a second pass.

    Attributes:
        weights: of all scores.
        tuned: how they were tuned; None if they were given.
        curves: the word errors on the development lists over each weight that was tuned.
        before: the lists as they were read, with all of their hypotheses.
        after: the lists after re-ranking, with the added scores; hypotheses that no model has scored are left out.
    """

    weights: Weights
    tuned: Tuned | None
    curves: Mapping[str, ErrorCurve]
    before: list[NBest]
    after: list[NBest]

    @property
    def changed(self) -> int:
        """Number of lists whose best text has changed."""
        return sum(old.hyps[0].text != new.hyps[0].text for old, new in zip(self.before, self.after, strict=True))

    @property
    def can_be_scored(self) -> bool:
        """Whether all lists have references, and some of them words."""
        return all(nbest.ref is not None for nbest in self.before) and any(nbest.ref for nbest in self.before)


def rescore(
    job: SecondPass, models: Sequence[LanguageModel], *, ngpu: int = 0, say: Callable[[str], None] = print
) -> Outcome:
    """Rescore lists with language models, and print what has changed. With several GPUs each has a process of its own.

    Raises:
        InputError: as :func:`second_pass`.
    """
    if ngpu > 1:
        from espnet_ext.rescore.processes import launch

        return launch(rescore, ngpu, job, models, ngpu=1, say=say)
    if not _is_first():
        say = _silent
    loaders = {model.label: (lambda model=model: model.load(ngpu, say)) for model in models}
    if len(loaders) < len(models):
        raise InputError("two language models with the same name for their scores: give each its own --name")
    for model in models:  # the last one too, before the first has scored all lists
        check_place(model.path)
    outcome = second_pass(job, loaders, say)
    for line in outcome_lines(outcome):
        say(line)
    return outcome


def second_pass(
    job: SecondPass, models: Mapping[str, Callable[[], ListScorer]], say: Callable[[str], None] = print
) -> Outcome:
    """Rescore lists, and write into ``job.output``:

    - ``nbest.jsonl``: the re-ranked lists, each hypothesis with the first pass's score and the added ones;
    - ``text``: the best hypotheses as a Kaldi table, and ``ref`` if all lists have references;
    - after tuning, ``interpolation.json`` (the weights), ``curve.json`` and ``curve.png`` (the errors at every weight).

    All lists are read and checked before a scorer is loaded. Models are loaded one after the other.

    Args:
        job: what to rescore.
        models: by name of their scores, what loads them.
        say: prints warnings.

    Raises:
        InputError: what the readers, the scorers and the tuning refuse; the lists already have scores of that name; not
            exactly one source of the weights is given.
    """
    if (bool(job.tune_on), bool(job.weights), job.weight_file is not None).count(True) != 1:
        raise InputError(
            "the weight of the first pass: give exactly one of --tune-on LISTS, --weight X and --weight-file FILE"
        )
    if not job.tune_on and (job.parts or job.length or job.end != "with"):
        raise InputError("--parts, --length and --end say what is tuned: give --tune-on too, or leave them out")
    if job.end not in END_CHOICES:
        raise InputError(f"the end token {job.end}: choose one of {', '.join(END_CHOICES)}")
    check_output(job.output, (job.nbest, *job.tune_on, job.reference, *job.tune_references, job.weight_file))
    lists = _without_scores(job.nbest, read_lists(job.nbest, job.reference, job.form), models)
    for warning in warnings_of(lists):
        say(warning)
    development = _read_development(job, models, say)
    if len({hyp.score for nbest in lists for hyp in nbest.hyps}) == 1 < max(len(nbest.hyps) for nbest in lists):
        say("warning: the first pass gives all hypotheses the same score: the language models decide alone")
    if job.nbest in job.tune_on:
        say("warning: the weights are tuned on the lists that are rescored: their error rate is too low")
    weights = _given_weights(job, models)
    check_weights(weights)
    if not job.tune_on:
        _check_names(weights, lists, models)
    elif job.parts:
        own_parts, tuned_parts = (parts_of(each, list(models)) for each in (lists, development))
        if missing := sorted({*tuned_parts} - {*own_parts}):
            raise InputError(
                f"{job.nbest}: its lists lack the part {missing[0]}, which those of --tune-on have: give it to them, "
                "or tune the total, without --parts"
            )
    same, main = development == lists, _is_first()
    scored, tuned_on = lists, [] if same else development
    for load in models.values():
        score = load()
        tuned_on = add_scores(tuned_on, score) if tuned_on else []
        scored = add_scores(scored, score)
    tuned = None
    curves: dict[str, Any] = {}
    if job.tune_on:
        tuned, curves = tune_scores(
            scored if same else tuned_on,
            list(models),
            parts=job.parts,
            length=job.length,
            end=job.end,
            tuned_on=[str(path) for path in job.tune_on],
        )
        weights = tuned.weights
    after = [rerank(nbest, weights) for nbest in scored]
    if main:
        begin_output(job.output)
        if tuned:
            write_tuning(job.output, tuned, curves)
        write_lists(job.output, after)
    return Outcome(weights, tuned, curves, lists, after)


def _is_first() -> bool:
    """Whether this is the only process or the first of several; known before torch is imported."""
    return os.environ.get("RANK", "0") == "0"


def _silent(_line: str) -> None:
    """What processes print that are not the first."""


def _given_weights(job: SecondPass, models: Mapping[str, object]) -> Weights:
    if job.weight_file:
        return read_weights(job.weight_file)
    if not job.weights:
        return {}
    missing = {name: 1.0 for name in models if not {name, f"{name}{WITHOUT_END}"} & job.weights.keys()}
    return {**missing, **job.weights}


def _check_names(weights: Weights, lists: Sequence[NBest], models: Collection[str]) -> None:
    """Refuse weights of scores that the lists will not have, and models or a first pass without a weight."""
    own = {f"{name}{suffix}" for name in models for suffix in ("", WITHOUT_END)}
    parts = {name for nbest in lists for hyp in nbest.hyps for name in hyp.scores}
    if unknown := sorted(weights.keys() - own - parts - {FIRST_PASS, LENGTH}):
        known = ", ".join([FIRST_PASS, LENGTH, *models, *sorted(parts)])
        raise InputError(f"a weight for {unknown[0]!r}, which is no score of these lists and models; they have {known}")
    for name in models:
        if not {name, f"{name}{WITHOUT_END}"} & weights.keys():
            raise InputError(f"the model {name} has no weight: give it one, or leave its --lm out")
    if not weights.keys() & (parts | {FIRST_PASS}):
        raise InputError("the first pass has no weight: give --weight X for it too (0 if it should have no say)")


def outcome_lines(outcome: Outcome) -> list[str]:
    """What a second pass did, as lines to print: the weights, and error rates if there are references."""
    lines = ["weights: " + ", ".join(f"{name} {weight:.6g}" for name, weight in outcome.weights.items())]
    if tuned := outcome.tuned:
        lines.append(f"on {tuned.lists} development lists: WER {_rate(tuned.errors, tuned.words)}")
        for name, (low, high) in tuned.intervals.items():
            ends = outcome.curves[name].errors
            lines.append(
                f"  the same for {name} from {low:.6g} to {high:.6g}; {_rate(ends[0], tuned.words)} at the lower end "
                f"of its weights, {_rate(ends[-1], tuned.words)} by it alone"
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


def add_scores(lists: Sequence[NBest], score: ListScorer) -> list[NBest]:
    """The lists, in the same order, with the scorer's log-probabilities among the scores of each hypothesis.

    A hypothesis without new scores is left out. If no hypothesis of a list has any, or only those without words, all
    stay, with scores of 0: the model then has no say.

    Raises:
        InputError: a score is not finite, or what ``score`` refuses.
    """
    new = score(lists)
    names = next((list(scores) for own in new for scores in own if scores is not None), [])
    nothing = dict.fromkeys(names, 0.0)
    found = []
    for nbest, own in zip(lists, new, strict=True):
        scored = [hyp.text for hyp, scores in zip(nbest.hyps, own, strict=True) if scores is not None]
        none = not scored or (len(scored) < len(own) and not any(scored))
        hyps = [
            replace(hyp, scores={**hyp.scores, **(nothing if none else scores or {})})
            for hyp, scores in zip(nbest.hyps, own, strict=True)
            if none or scores is not None
        ]
        found.append(replace(nbest, hyps=tuple(hyps)))
    return found


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


def write_tuning(folder: Path, tuned: Tuned, curves: Mapping[str, ErrorCurve]) -> None:
    """Write ``interpolation.json``, ``curve.json`` and ``curve.png``."""
    from espnet_ext.rescore.figures import draw_curves  # matplotlib takes a second to import
    from espnet_ext.work.plot_style import save_png

    write_tuned(folder / "interpolation.json", tuned)
    write_curves(folder / "curve.json", curves)
    save_png(draw_curves(curves, tuned, ", ".join(Path(path).stem for path in tuned.tuned_on)), folder / "curve.png")


def _read_development(job: SecondPass, models: Mapping[str, object], say: Callable[[str], None]) -> list[NBest]:
    if job.tune_references and len(job.tune_references) != len(job.tune_on):
        raise InputError(
            f"{len(job.tune_references)} references for {len(job.tune_on)} development sets: give one for each, or none"
        )
    references = job.tune_references or (None,) * len(job.tune_on)
    lists = []
    for path, reference in zip(job.tune_on, references, strict=True):
        own = _without_scores(path, read_lists(path, reference, job.form), models)
        try:
            best_errors(own)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        for warning in warnings_of(own, path) if path != job.nbest else ():
            say(warning)
        lists += own
    return lists


def _without_scores(path: Path, lists: list[NBest], models: Mapping[str, object]) -> list[NBest]:
    """Refuse lists that already have scores of these names, from the first pass or another model."""
    for nbest in lists:
        for hyp in nbest.hyps:
            if twice := sorted(models.keys() & {FIRST_PASS, LENGTH, *hyp.scores}):
                raise InputError(
                    f"{path}: {nbest.utt_id} has scores named {twice[0]} already: give the new ones another --name"
                )
    return lists
