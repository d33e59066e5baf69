"""Graphs as csr arrays: ``nd.contrib.dgl_*`` and ``edge_id``. The expected values are MXNet 1.9.1's."""
import numpy as np
import pytest

import hybrid
from hybrid import nd


def csr(values, columns, ends, size):
    return nd.sparse.csr_matrix((np.array(values, np.int64), np.array(columns), np.array(ends)), shape=(size, size),
                                dtype="int64")


def parts(x):
    return [p.asnumpy().tolist() for p in (x.data, x.indices, x.indptr)]


def ids(*numbers):
    return nd.array(numbers, dtype="int64")


SMALL = ([1, 2, 3, 4, 5, 6, 7], [0, 2, 1, 2, 3, 0, 3], [0, 2, 3, 5, 7], 4)
FULL = (range(1, 21), [1, 2, 3, 4, 0, 2, 3, 4, 0, 1, 3, 4, 0, 1, 2, 4, 0, 1, 2, 3], [0, 4, 8, 12, 16, 20], 5)


def test_edge_numbers_and_adjacency():
    g = csr(*SMALL)
    assert nd.contrib.edge_id(g, ids(0, 0, 2, 3, 1), ids(0, 1, 2, 3, 1)).asnumpy().tolist() == [1, -1, 4, 7, 3]
    adjacency = nd.contrib.dgl_adjacency(g)
    assert adjacency.stype == "csr" and adjacency.dtype == np.float32
    assert parts(adjacency) == [[1.0] * 7, SMALL[1], SMALL[2]]
    with pytest.raises(hybrid.MXNetError, match="from 0 to 3"):
        nd.contrib.edge_id(g, ids(9), ids(0))


def test_subgraphs():
    g = csr(*SMALL)
    one, two, old, old_two = nd.contrib.dgl_subgraph(g, ids(0, 1, 2), ids(1, 3), num_args=3, return_mapping=True)
    assert parts(one) == [[0, 1, 2, 3], [0, 2, 1, 2], [0, 2, 3, 4]] and one.shape == (3, 3)
    assert parts(two) == [[0, 1], [0, 1], [0, 1, 2]]
    assert parts(old) == [[1, 2, 3, 4], [0, 2, 1, 2], [0, 2, 3, 4]] and parts(old_two)[0] == [3, 7]
    assert nd.contrib.dgl_subgraph(g, ids(0, 1, 2), return_mapping=False).stype == "csr"
    with pytest.raises(hybrid.MXNetError, match="sorted"):
        nd.contrib.dgl_subgraph(g, ids(2, 1), return_mapping=True)
    with pytest.raises(hybrid.MXNetError, match="csr"):
        nd.contrib.dgl_subgraph(g.tostype("default"), ids(0), return_mapping=True)


def test_a_sample_of_all_neighbors_is_the_graph():
    vertices, graph, layer = nd.contrib.dgl_csr_neighbor_uniform_sample(
        csr(*FULL), ids(0), num_args=2, num_hops=2, num_neighbor=9, max_num_vertices=6)
    assert vertices.asnumpy().tolist() == [0, 1, 2, 3, 4, 0, 5] and layer.asnumpy().tolist() == [0, 1, 1, 1, 1, 0]
    assert parts(graph) == [list(range(1, 21)), FULL[1], [0, 4, 8, 12, 16, 20, 20]] and graph.shape == (6, 5)


def test_a_sample_ends_at_the_most_vertices():
    vertices, graph, layer = nd.contrib.dgl_csr_neighbor_uniform_sample(
        csr(*FULL), ids(0), num_hops=2, num_neighbor=4, max_num_vertices=3)
    assert vertices.asnumpy().tolist() == [0, 1, 2, 3] and layer.asnumpy().tolist() == [0, 1, 1]
    assert parts(graph)[1:] == [[1, 2, 3, 4], [0, 4, 4, 4]]


def test_samples_draw_by_the_seed_and_compact():
    hybrid.random.seed(3)
    many = nd.contrib.dgl_csr_neighbor_uniform_sample(csr(*FULL), ids(0, 1), ids(0), num_args=3, max_num_vertices=6)
    assert [x.stype for x in many] == ["default"] * 2 + ["csr"] * 2 + ["default"] * 2
    assert np.diff(many[2].indptr.asnumpy()).tolist() == [2, 2, 0, 0, 0, 0]
    hybrid.random.seed(3)
    again = nd.contrib.dgl_csr_neighbor_uniform_sample(csr(*FULL), ids(0, 1), ids(0), max_num_vertices=6)
    assert all((a.asnumpy() == b.asnumpy()).all() for a, b in zip(many, again))
    count = int(many[1][-1].asscalar())
    new, old = nd.contrib.dgl_graph_compact(many[3], many[1], graph_sizes=count, return_mapping=True)
    assert new.shape == (3, 3) and parts(new) == [[0, 1], [1, 2], [0, 2, 2, 2]]
    assert parts(old)[0] == many[3].data.asnumpy().tolist()
    with pytest.raises(hybrid.MXNetError, match="graph_sizes"):
        nd.contrib.dgl_graph_compact(many[3], many[1], graph_sizes=count + 1, return_mapping=False)


def test_weighted_samples_follow_the_probabilities():
    weights, drawn = nd.array([0.0, 0.0, 8.0, 1.0, 1.0]), np.zeros(5)
    hybrid.random.seed(5)
    for _ in range(300):
        vertices, graph, chance, layer = nd.contrib.dgl_csr_neighbor_non_uniform_sample(
            csr(*FULL), weights, ids(0), num_args=3, num_neighbor=1, max_num_vertices=4)
        drawn[graph.indices.asnumpy()] += 1
    assert drawn[1] == 0 and 210 < drawn[2] < 270 and chance.asnumpy()[1] == weights.asnumpy()[vertices.asnumpy()[1]]
