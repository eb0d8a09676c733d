"""Which weights a second pass tunes: of the first pass or its parts, of each language model, and of the length."""

from collections.abc import Sequence
from itertools import product

from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import NBest
from espnet_ext.rescore.interpolation import FIRST_PASS, LENGTH, WITHOUT_END, ErrorCurve, Tuned, tune

# What becomes of the score of a causal model's end token: part of the sum, left out, or whichever makes fewer errors.
END_CHOICES = ("with", "without", "tune")


def tune_scores(
    lists: Sequence[NBest],
    models: Sequence[str],
    *,
    parts: bool = False,
    length: bool = False,
    end: str = "with",
    tuned_on: Sequence[str] = (),
) -> tuple[Tuned, dict[str, ErrorCurve]]:
    """Tune the weights of all scores; the first language model's is 1, which sets the scale of the others.

    Args:
        lists: with references and the scores of the models.
        models: the names of their scores.
        parts: a weight for each part of the first pass, in place of its total.
        length: a bonus for each word.
        end: one of ``END_CHOICES``.
        tuned_on: the files of the lists.

    Raises:
        InputError: the lists have no parts of the first pass, or not all of them; no model's score has an end token; or
            what the tuning refuses.
    """
    first_pass = parts_of(lists, models) if parts else [FIRST_PASS]
    bonus = [LENGTH] if length else []
    found = []
    for names in product(*_with_and_without_end(lists, models, end)):
        weights = dict.fromkeys([*names, *first_pass], 1.0) | dict.fromkeys(bonus, 0.0)
        found.append(tune(lists, weights, [*first_pass, *names[1:], *bonus], tuned_on))
    return min(found, key=lambda each: each[0].errors)


def parts_of(lists: Sequence[NBest], models: Sequence[str]) -> list[str]:
    """Names of the parts of the first pass that lists have besides the scores of models, in alphabetical order.

    Of a causal model of an earlier second pass, whose scores are there with the end token and without, the former.

    Raises:
        InputError: there are none, a hypothesis lacks one that another has, or one has a name that is taken.
    """
    own = {f"{name}{suffix}" for name in models for suffix in ("", WITHOUT_END)}
    known = {name for nbest in lists for hyp in nbest.hyps for name in hyp.scores} - own
    known -= {f"{name}{WITHOUT_END}" for name in known}
    for nbest in lists:
        for number, hyp in enumerate(nbest.hyps, start=1):
            if missing := sorted(known - hyp.scores.keys()):
                raise InputError(
                    f"{nbest.utt_id}: hypothesis {number} lacks the part {missing[0]} of the first pass, which others "
                    "have: give it to all, or tune the total, without --parts"
                )
    if taken := sorted(known & {FIRST_PASS, LENGTH}):
        raise InputError(f"a part of the first pass is called {taken[0]!r}, which means another thing here: rename it")
    if not known:
        raise InputError("the lists have no scores of the parts of the first pass: tune its total, without --parts")
    return sorted(known)


def _with_and_without_end(lists: Sequence[NBest], models: Sequence[str], end: str) -> list[tuple[str, ...]]:
    """The scores of each model that are tried, by the choice of ``END_CHOICES``; only causal models have two."""
    causal = [f"{name}{WITHOUT_END}" in lists[0].hyps[0].scores for name in models]
    if end == "without" and not any(causal):
        raise InputError(
            f"{', '.join(models)}: no score has an end token that could be left out: none is a causal model's"
        )
    suffixes = {"with": ("",), "without": (WITHOUT_END,), "tune": ("", WITHOUT_END)}[end]
    return [
        tuple(f"{name}{suffix}" for suffix in (suffixes if has_end else ("",)))
        for name, has_end in zip(models, causal, strict=True)
    ]
