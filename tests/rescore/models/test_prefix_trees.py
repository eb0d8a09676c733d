import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.rescore.models.prefix_trees import (
    PADDING,
    group_by_size,
    grow,
    stack_trees,
)

texts = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=6
)


@settings(max_examples=60)
@given(
    lists=st.lists(texts, min_size=1, max_size=3),
    most=st.integers(1, 30),
    masked=st.booleans(),
)
def test_rows_hold_every_hypothesis_with_its_own_prefixes(lists, most, masked):
    trees, told = [], []
    for hypotheses in lists:
        trees += grow(
            [(len(told) + n, tokens) for n, tokens in enumerate(hypotheses)], most
        )
        told += hypotheses
    rows = stack_trees(trees, masked)
    ids, depths = rows.ids[rows.real].tolist(), rows.depths[rows.real].tolist()
    row_of = rows.real.nonzero()[:, 0].tolist()
    starts = np.concatenate(([0], rows.real.sum(1).cumsum(0)))
    assert sorted(rows.hyps.tolist()) == list(range(len(told)))
    for hyp, path in zip(rows.hyps.tolist(), rows.paths.tolist(), strict=True):
        path = path[: len(told[hyp])]
        assert [ids[node] for node in path] == told[hyp]
        assert [depths[node] for node in path] == list(range(len(path)))
        assert len({row_of[node] for node in path}) == 1
        if masked:
            row = row_of[path[0]]
            inside = [node - starts[row] for node in path]
            assert inside == sorted(inside)  # each after its parent
            for place, node in enumerate(inside):
                assert (
                    rows.sees[row, node].nonzero().squeeze(1).tolist()
                    == inside[: place + 1]
                )
    assert (rows.paths >= 0).sum(1).tolist() == [len(told[hyp]) for hyp in rows.hyps]


@given(hypotheses=texts)
def test_a_tree_has_each_prefix_once(hypotheses):
    (tree,) = grow(list(enumerate(hypotheses)), 1000)
    assert len(tree) == len(
        {
            tuple(tokens[: end + 1])
            for tokens in hypotheses
            for end in range(len(tokens))
        }
    )


@given(hypotheses=texts, most=st.integers(1, 20))
def test_a_tree_is_no_larger_than_allowed_but_for_one_long_hypothesis(hypotheses, most):
    for tree in grow(list(enumerate(hypotheses)), most):
        assert len(tree) <= most or len(tree.paths) == 1


@given(sizes=st.lists(st.integers(1, 200), max_size=40), budget=st.integers(1, 400))
def test_batches_hold_each_row_once_within_the_budget(sizes, budget):
    batches = group_by_size(sizes, budget)
    assert sorted(index for batch in batches for index in batch) == list(
        range(len(sizes))
    )
    for batch in batches:
        width = max(sizes[index] for index in batch)
        assert len(batch) * width <= budget or len(batch) == 1
        assert all(width - sizes[index] <= width / PADDING for index in batch)
