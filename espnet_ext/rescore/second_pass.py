"""Rescore N-best lists: add scores of language models, tune all weights, re-rank."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.nbest.selection import (
    ALL,
    Selection,
    Weights,
    check_weights,
    select_hypotheses,
)
from espnet_ext.nbest.sources import AUTO, find_oddities, read_lists
from espnet_ext.nbest.speakers import find_speakers
from espnet_ext.rescore import check_model_path
from espnet_ext.rescore.devices import (
    choose_process_device,
    is_main,
    launch,
    map_shared,
    mute_unless_main,
)
from espnet_ext.rescore.kept_scores import (
    ListScorer,
    Scoring,
    identify_model,
    make_keeping_scorer,
)
from espnet_ext.rescore.outcome import (
    Outcome,
    check_output,
    list_outcome,
    write_outcome,
)
from espnet_ext.rescore.weights import (
    FIRST_PASS,
    ErrorCurve,
    Tuned,
    compute_curves,
    list_flat_scores,
    rerank,
    tune,
)
from espnet_ext.text.nbest import NBest, find_shared_lists, require_references
from espnet_ext.work.precision import has_bfloat16

KEPT = "scores"  # in the folder of a second pass, unless another is named


@dataclass(frozen=True)
class SecondPass:
    """Say what to rescore, and where the weights come from: ``tune_on`` or ``weights``.

    ``nbest`` and ``tune_on``, development lists that are used jointly, are as
    :func:`espnet_ext.nbest.sources.read_lists` takes them, and ``selection`` is what is
    used of both; ``reference`` and ``tune_references`` are needed if the lists have
    none. Weights that are not named have 1. ``utt2spk`` has the speakers of ``nbest``,
    None: those that :func:`espnet_ext.nbest.speakers.find_speakers` finds.
    ``scores`` is the folder of kept scores (:mod:`espnet_ext.rescore.kept_scores`),
    None: one in ``output``.
    """

    nbest: Path
    output: Path
    reference: Path | None = None
    form: str = AUTO
    reference_form: str = AUTO
    tune_references: tuple[Path, ...] = ()
    tune_on: tuple[Path, ...] = ()
    weights: Weights = field(default_factory=dict)
    selection: Selection = ALL
    utt2spk: Path | None = None
    scores: Path | None = None


@dataclass(frozen=True)
class LanguageModel:
    """Name a language model, which is loaded after everything else has been checked.

    ``scorer``, ``casing`` and ``dtype`` are those of
    :func:`espnet_ext.rescore.models.scorers.load_lm`.
    """

    path: str  # folder, GGUF file or name on the hub
    label: str  # name of the scores that it adds
    scorer: str | None = None
    casing: str | None = None
    dtype: str | None = None
    positions: int | None = None  # most tokens of a forward pass
    amp: bool = False  # compute in bfloat16, with parameters as they are

    def identify(self) -> dict[str, Any]:
        """Return what a score depends on besides the text."""
        return {
            "model": Path(self.path).name,
            "content": identify_model(self.path),
            "scorer": self.scorer,
            "casing": self.casing,
            "dtype": self.dtype or "float32",
            "amp": self.amp,
        }

    def load(self, ngpu: int = 0, log: Callable[[str], None] = print) -> ListScorer:
        """Load the model, and return a function that scores lists with it.

        With 1 as ``ngpu`` it takes a GPU.
        """
        # torch and transformers take seconds to import: bad lists are refused without
        # them
        from espnet_ext.rescore.models.scorers import load_lm, score_nbest

        device = choose_process_device(ngpu)
        model = load_lm(self.path, self.scorer, casing=self.casing, dtype=self.dtype)
        model = model.to(device).eval()
        model.budget = self.positions or model.budget
        model.amp = self.amp and has_bfloat16(device, "amp")

        has_looked = False

        def score(lists: Sequence[NBest]) -> list[list[float]]:
            nonlocal has_looked
            if not has_looked:
                has_looked = True
                texts = (hyp.text for nbest in lists for hyp in nbest.hyps)
                warning = model.check_casing(texts)
                if warning:
                    log(warning)
            return map_shared(lambda own: score_nbest(model, own), lists)

        return score


def rescore(
    job: SecondPass,
    models: Sequence[LanguageModel],
    *,
    ngpu: int = 0,
    log: Callable[[str], None] = print,
) -> Outcome | None:
    """Rescore lists with language models, print what has changed, and write all.

    Into ``job.output``:

    - ``nbest.jsonl``: the re-ranked lists, each hypothesis with the first pass's score
      and the added ones;
    - ``text``: the best hypotheses as a Kaldi table, and ``ref`` if all lists have
      references;
    - after tuning, ``interpolation.json``: the weights, and ``curves.tsv``: the errors
      of the development lists by each of them;
    - ``scores``: the kept scores of all texts, unless ``job`` names another folder.

    All lists are read and checked before a model is loaded, and models are loaded one
    after the other. With several GPUs, each has a process, and nothing is returned.
    """
    if ngpu > 1:
        launch(rescore, ngpu, job, models, ngpu=1, log=log)
        return None
    log = mute_unless_main(log)
    names = [model.label for model in models]
    _check_job(job, models)
    weights = _check_given_weights(job, names)
    lists, notes = _read_selected(job, job.nbest, job.reference, names)
    for line in (*notes, *find_oddities(lists)):
        log(line)
    utterances = [nbest.utt_id for nbest in lists]
    speakers = find_speakers(utterances, job.nbest, job.reference, utt2spk=job.utt2spk)
    development = _read_development(job, names, log)
    for warning in _find_odd_choices(lists, development):
        log(warning)
    # Lists that are tuned on themselves are scored once.
    same = development == lists
    scored = lists
    tuned_on = [] if same else development
    kept = job.scores or job.output / KEPT
    for model in models:
        score = make_keeping_scorer(_name_scoring(model, ngpu, log), kept, log)
        tuned_on = add_scores(tuned_on, score, model.label) if tuned_on else []
        scored = add_scores(scored, score, model.label)
    tuned: Tuned | None = None
    curves: dict[str, ErrorCurve] = {}
    if job.tune_on:
        tuned_on = scored if same else tuned_on
        tuned = tune(tuned_on, names, [str(path) for path in job.tune_on])
        weights = tuned.weights
        curves = compute_curves(tuned_on, weights, names[0])
    for warning in list_flat_scores(scored, weights):
        log(warning)
    after = [rerank(nbest, weights) for nbest in scored]
    outcome = Outcome(weights, tuned, lists, after, curves, speakers)
    if is_main():
        write_outcome(job.output, outcome)
    for line in list_outcome(outcome):
        log(line)
    return outcome


def _check_job(job: SecondPass, models: Sequence[LanguageModel]) -> None:
    """Refuse what would fail after hours of scoring: models, weights, the output."""
    for model in models:  # the last one too, before the first has scored all lists
        check_model_path(model.path)
    if bool(job.tune_on) == bool(job.weights):
        raise InputError(
            "the weight of the first pass: give --tune-on LISTS or --weight "
            "first_pass=X"
        )
    inputs = (job.nbest, *job.tune_on, job.reference, *job.tune_references)
    check_output(job.output, inputs)


def _find_odd_choices(
    lists: Sequence[NBest], development: Sequence[NBest]
) -> Iterator[str]:
    """Find what makes a second pass worth little, as lines to print."""
    scores = {hyp.score for nbest in lists for hyp in nbest.hyps}
    longest = max(len(nbest.hyps) for nbest in lists)
    if len(scores) == 1 and longest > 1:
        yield (
            "warning: the first pass gives all hypotheses the same score: the "
            "language models decide alone"
        )
    shared = len(find_shared_lists(lists, development))
    if shared:
        part = "" if shared == len(lists) else f"{shared} of "
        yield (
            f"warning: the weights are tuned on {part}the lists that are rescored: "
            "their error rate is too low"
        )


def _name_scoring(
    model: LanguageModel, ngpu: int, log: Callable[[str], None]
) -> Scoring:
    return Scoring(model.label, model.identify(), lambda: model.load(ngpu, log))


def _check_given_weights(job: SecondPass, names: Collection[str]) -> Weights:
    """Return the weights that need no tuning, 1 for scores that are not named."""
    check_weights(job.weights)
    known = [FIRST_PASS, *names]
    if unknown := sorted(job.weights.keys() - set(known)):
        raise InputError(
            f"a weight for {unknown[0]!r}: the scores are {', '.join(known)}"
        )
    weights = dict.fromkeys([*names, FIRST_PASS], 1.0)
    weights.update(job.weights)
    return weights


def add_scores(lists: Sequence[NBest], score: ListScorer, name: str) -> list[NBest]:
    """Return the lists with the scorer's log-probabilities among their scores."""
    added = []
    for nbest, own in zip(lists, score(lists), strict=True):
        hyps = []
        for hyp, value in zip(nbest.hyps, own, strict=True):
            hyps.append(replace(hyp, scores={**hyp.scores, name: value}))
        added.append(replace(nbest, hyps=tuple(hyps)))
    return added


def _read_development(
    job: SecondPass, names: Collection[str], log: Callable[[str], None]
) -> list[NBest]:
    """Read all lists to tune on, which have references, and print what is odd."""
    if job.tune_references and len(job.tune_references) != len(job.tune_on):
        raise InputError(
            f"{len(job.tune_references)} references for {len(job.tune_on)} "
            "development sets: give one for each, or none"
        )
    references = job.tune_references or (None,) * len(job.tune_on)
    lists = []
    for path, reference in zip(job.tune_on, references, strict=True):
        own, notes = _read_selected(job, path, reference, names)
        require_references(own, path, "--tune-ref")
        if path.resolve() != job.nbest.resolve():  # of which all has been said
            for line in (*notes, *find_oddities(own, path)):
                log(line)
        lists += own
    return lists


def _read_selected(
    job: SecondPass,
    path: Path,
    reference: Path | None,
    names: Collection[str],
) -> tuple[list[NBest], list[str]]:
    """Return what is used of lists, and lines that say what that is."""
    lists = read_lists(path, reference, job.form, job.reference_form)
    _refuse_scores(path, lists, names)
    return select_hypotheses(lists, job.selection, path)


def _refuse_scores(path: Path, lists: Iterable[NBest], names: Collection[str]) -> None:
    """Refuse lists that already have scores of these names."""
    # From the first pass or another model: the new ones would take their place.
    for nbest in lists:
        for hyp in nbest.hyps:
            if twice := sorted({*names} & {FIRST_PASS, *hyp.scores}):
                raise InputError(
                    f"{path}: {nbest.utt_id} has scores named {twice[0]} already: "
                    "rescore the lists of the first pass, "
                    "with a --lm for each language model"
                )
