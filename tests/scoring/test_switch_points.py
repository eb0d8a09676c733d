"""Classes of an alignment near switch points, against the definition by switch points written out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.scoring.error_rate import align, count_errors, count_pairs
from espnet_ext.scoring.switch_points import count_switches, split_at_switches

TOKENS = st.sampled_from("我你去abc")


def near_by_definition(pairs: list, within: int) -> list:
    """Tokens among the ``within`` on either side of a switch point, and insertions less than that away from one."""
    tokens = [left for left, _ in pairs if left is not None]
    switches = [i for i in range(1, len(tokens)) if tokens[i].isascii() != tokens[i - 1].isascii()]
    found, place = [], 0
    for pair in pairs:
        if pair[0] is None:
            if any(abs(switch - place) < within for switch in switches):
                found.append(pair)
            continue
        if any(place in range(switch - within, switch + within) for switch in switches):
            found.append(pair)
        place += 1
    return found


@given(st.lists(TOKENS, max_size=12), st.lists(TOKENS, max_size=12), st.integers(1, 4))
@settings(max_examples=300, deadline=None)
def test_classes_equal_the_definition_and_add_up(reference, hypothesis, within):
    pairs = align(reference, hypothesis)
    near, rest = split_at_switches(pairs, str.isascii, within)
    assert near == near_by_definition(pairs, within)
    assert sorted(map(str, near + rest)) == sorted(map(str, pairs))
    assert count_pairs(near) + count_pairs(rest) == count_errors(reference, hypothesis)


def test_insertions_belong_to_the_boundary_at_which_they_stand():
    at_switch = [("我", "我"), (None, "x"), ("a", "a"), ("b", "b"), (None, "y")]
    assert split_at_switches(at_switch, str.isascii)[1] == [("b", "b"), (None, "y")]
    # Within 2 tokens, the insertion one token behind the switch counts too, that at the end does not.
    behind = [("我", "我"), ("a", "a"), (None, "x"), ("b", "b"), (None, "y")]
    assert split_at_switches(behind, str.isascii)[1] == [(None, "x"), ("b", "b"), (None, "y")]
    assert split_at_switches(behind, str.isascii, 2)[1] == [(None, "y")]


def test_one_language_has_no_switch_point():
    pairs = [("a", "b"), (None, "我"), ("c", None)]
    assert split_at_switches(pairs, str.isascii, 9) == ([], pairs)
    assert split_at_switches([], str.isascii) == ([], [])
    assert count_switches([["a", "b"], ["我"], []], str.isascii) == {"switch_points": 0, "utterances_with_switch": 0}


@pytest.mark.parametrize("within", [0, -1])
def test_a_stretch_of_no_tokens_is_refused(within):
    with pytest.raises(ValueError, match="at least 1 token"):
        split_at_switches([("a", "a")], str.isascii, within)
