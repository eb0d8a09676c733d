"""The memory of a tree of prefixes.

What attends to it is compared with the forward pass in tests/codeswitch.
"""

import torch

from espnet_ext.fast_search.prefix_tree import PrefixTree


def test_nodes_that_no_hypothesis_needs_go():
    tree = PrefixTree(1, 1, 0)
    nodes = torch.zeros(10, 0, dtype=torch.long)
    for step in range(200):
        tree, nodes = tree.add_nodes(nodes, 1)
        x = torch.full((1, 2, 10, 3), float(step))
        tree.write(0, tree.size - 10, x, -x)
        nodes = nodes[:1].repeat(10, 1)  # one survives each step
        assert tree.size <= tree.capacity <= 200 + 10 + 200 // 4 + 80
    keys, values = tree.read(0, tree.size)
    assert (
        keys[0, 0, nodes[0], 0].tolist()
        == (-values[0, 1, nodes[3], 2]).tolist()
        == list(range(200))
    )
