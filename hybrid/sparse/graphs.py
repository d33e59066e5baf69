"""``nd.contrib`` functions of graphs: a csr matrix holds the numbers of a graph's edges, row i those that leave vertex
i for the vertices that its columns name. Eager; the results are not differentiable."""
from __future__ import annotations

from typing import Any, Iterator

import numpy as np

from ..base.errors import AttributeValueError, ShapeError
from ..buffers.array import NDArray, array
from ..nd.functions import resolve
from .storage import CSRNDArray, make


def _graph(function: str, data: Any, square: bool = True) -> CSRNDArray:
    """The graph that a function was given, checked."""
    if not isinstance(data, CSRNDArray):
        raise AttributeValueError(f"{function} takes a graph as a csr array, got "
                                  f"{getattr(data, 'stype', type(data).__name__)!r}; x.tostype('csr') makes one")
    if square and data.shape[0] != data.shape[1]:
        raise ShapeError(f"{function}: a graph's matrix is square, got shape {data.shape}")
    return data


def _numbers(x: Any) -> np.ndarray:
    """Numbers of vertices as a flat array of int64."""
    return np.asarray(x.asnumpy() if isinstance(x, NDArray) else x).astype(np.int64).reshape(-1)


def _within(function: str, numbers: np.ndarray, size: int) -> np.ndarray:
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < size:
        raise ShapeError(f"{function}: vertices are from 0 to {size - 1}, got {numbers.tolist()[:8]}")
    return numbers


def _csr(like: CSRNDArray, shape: tuple[int, ...], values: Any, columns: Any, ends: Any) -> CSRNDArray:
    return make(CSRNDArray, shape, np.asarray(values), (np.asarray(ends, np.int64), np.asarray(columns, np.int64)),
                like._ctx)


def _counted(function: str, num_args: int | None, given: int) -> None:
    if num_args is not None and num_args != given:
        raise AttributeValueError(f"{function}: num_args={num_args}, but {given} arrays were given")


def edge_id(data: Any, u: Any, v: Any) -> NDArray:
    """The value of each edge from u[i] to v[i], -1 where there is none.

    >>> from hybrid import nd
    >>> edge_id(nd.array([[1, 0], [0, 3]]).tostype("csr"), nd.array([0, 0]), nd.array([0, 1])).asnumpy().tolist()
    [1.0, -1.0]
    """
    graph = _graph("edge_id", data, square=False)
    rows, wanted = _within("edge_id", _numbers(u), graph.shape[0]), _within("edge_id", _numbers(v), graph.shape[1])
    if len(rows) != len(wanted):
        raise ShapeError(f"edge_id: u and v must have one length, got {len(rows)} and {len(wanted)}")
    ends, columns = graph._aux
    found = np.full(len(rows), -1, graph.dtype)
    for i, (row, column) in enumerate(zip(rows, wanted)):
        at = np.flatnonzero(columns[ends[row]:ends[row + 1]] == column)
        if len(at):
            found[i] = graph._values[ends[row] + at[0]]
    return array(found, graph._ctx)


def dgl_adjacency(data: Any) -> CSRNDArray:
    """The adjacency matrix of a graph: 1 (float32) for each edge."""
    graph = _graph("dgl_adjacency", data)
    ends, columns = graph._aux
    return _csr(graph, graph.shape, np.ones(len(columns), np.float32), columns.copy(), ends.copy())


def dgl_subgraph(graph: Any, *data: Any, return_mapping: bool, num_args: int | None = None) -> Any:
    """The subgraph of each sorted list of vertices: its edges numbered from 0; with return_mapping also, after all of
    these, the subgraphs with the numbers that the edges had."""
    whole = _graph("dgl_subgraph", graph)
    _counted("dgl_subgraph", num_args, 1 + len(data))
    ends, columns = whole._aux
    fresh, old = [], []
    for given in data:
        vertices = _within("dgl_subgraph", _numbers(given), whole.shape[0])
        if (np.diff(vertices) < 0).any():
            raise AttributeValueError(f"dgl_subgraph: the list of vertices has to be sorted, got "
                                      f"{vertices.tolist()[:8]}; sort it first (nd.sort)")
        place = np.full(whole.shape[1], -1, np.int64)
        place[vertices] = np.arange(len(vertices))
        spans = [np.arange(ends[v], ends[v + 1]) for v in vertices]
        kept = [span[place[columns[span]] >= 0] for span in spans]
        edges = np.concatenate(kept) if kept else np.zeros(0, np.int64)
        limits, shape = np.cumsum([0, *map(len, kept)]), (len(vertices), len(vertices))
        fresh.append(_csr(whole, shape, np.arange(len(edges), dtype=whole.dtype), place[columns[edges]], limits))
        old.append(_csr(whole, shape, whole._values[edges], place[columns[edges]], limits))
    made = fresh + old if return_mapping else fresh
    return made[0] if len(made) == 1 else made


def dgl_graph_compact(*graph_data: Any, return_mapping: bool, graph_sizes: Any, num_args: int | None = None) -> Any:
    """Sampled graphs without the empty rows at their ends, their vertices numbered anew.

    graph_data: csr graphs as the samplers give them, then for each its list of vertices; graph_sizes: how many vertices
    each has. The edges are numbered from 0; with return_mapping also, after these, the graphs with the old numbers.
    """
    name = "dgl_graph_compact"
    _counted(name, num_args, len(graph_data))
    sizes = [int(graph_sizes)] if np.ndim(graph_sizes) == 0 else [int(n) for n in graph_sizes]
    if len(graph_data) != 2 * len(sizes):
        raise AttributeValueError(f"{name} takes for each of its {len(sizes)} graph_sizes a graph and a list of "
                                  f"vertices, got {len(graph_data)} arrays")
    fresh, old = [], []
    for given, listed, size in zip(graph_data, graph_data[len(sizes):], sizes):
        graph, vertices = _graph(name, given, square=False), _numbers(listed)
        if not 0 <= size < len(vertices) or vertices[-1] != size or size > graph.shape[0]:
            raise AttributeValueError(f"{name}: graph_sizes says {size} vertices, the list of vertices ends with "
                                      f"{vertices[-1:].tolist()}; give int(vertices[-1].asscalar())")
        place = {int(v): i for i, v in enumerate(vertices[:size])}
        ends, columns = graph._aux[0][:size + 1], graph._aux[1][:graph._aux[0][size]]
        if missing := sorted({int(c) for c in columns} - place.keys()):
            raise AttributeValueError(f"{name}: edges lead to {missing[:5]}, which the list of vertices lacks (the "
                                      f"sample was cut at max_num_vertices; sample with more)")
        moved = [place[int(c)] for c in columns]
        fresh.append(_csr(graph, (size, size), np.arange(len(columns), dtype=graph.dtype), moved, ends.copy()))
        old.append(_csr(graph, (size, size), graph._values[:len(columns)].copy(), moved, ends.copy()))
    made = fresh + old if return_mapping else fresh
    return made[0] if len(made) == 1 else made


def _grown(graph: CSRNDArray, seeds: np.ndarray, weights: np.ndarray | None, hops: int, neighbors: int,
           most: int) -> tuple[dict[int, int], dict[int, np.ndarray]]:
    """The vertices that a sample reaches with their distances, and of each that was visited its drawn edges."""
    ends, columns = graph._aux
    layer = {int(v): 0 for v in seeds}
    queue, edges, at = list(layer), {}, 0
    while at < len(queue) and len(queue) < most:
        vertex, at = queue[at], at + 1
        if layer[vertex] >= hops:
            continue
        span = np.arange(ends[vertex], ends[vertex + 1])
        if len(span) > neighbors:
            span = np.sort(_drawn(span, neighbors, None if weights is None else weights[columns[span]]))
        edges[vertex] = span
        for column in columns[span].tolist():
            if len(queue) >= most:
                break
            if column not in layer:
                layer[column] = layer[vertex] + 1
                queue.append(column)
    return layer, edges


def _drawn(span: np.ndarray, count: int, weights: np.ndarray | None) -> np.ndarray:
    """Some of the edges, each at most once, by the random numbers that ``random.seed`` starts."""
    chance = np.asarray(resolve("nd", "random_uniform")(shape=(len(span),)).asnumpy(), np.float64)
    if weights is None:
        return span[np.argsort(chance, kind="stable")[:count]]
    with np.errstate(divide="ignore"):                       # by exponential clocks: the first to ring are drawn
        rings = -np.log1p(-chance) / weights
    rings[weights <= 0] = np.inf
    return span[np.argsort(rings, kind="stable")[:count]]


def _sampled(function: str, csr: Any, seeds: tuple[Any, ...], weights: Any, hops: int, neighbors: int,
             most: int) -> list[Any]:
    graph = _graph(function, csr)
    chances = None
    if weights is not None:
        chances = np.asarray(weights.asnumpy() if isinstance(weights, NDArray) else weights, np.float32).reshape(-1)
        if len(chances) != graph.shape[0]:
            raise ShapeError(f"{function}: one probability for each of {graph.shape[0]} vertices is expected, got "
                             f"{len(chances)}")
    results = [list(_sample(function, graph, given, chances, hops, neighbors, most)) for given in seeds]
    return [part for kind in zip(*results) for part in kind]


def _sample(function: str, graph: CSRNDArray, given: Any, chances: Any, hops: int, neighbors: int,
            most: int) -> Iterator[Any]:
    """Of one list of seeds: vertices and their count, the graph, probabilities if there are any, distances."""
    seeds = _within(function, _numbers(given), graph.shape[0])
    if len(seeds) > most:
        raise AttributeValueError(f"{function}: {len(seeds)} seeds are more than max_num_vertices={most}")
    layer, edges = _grown(graph, seeds, chances, hops, neighbors, most)
    order = sorted(layer)
    vertices, far = np.zeros(most + 1, np.int64), np.zeros(most, np.int64)
    vertices[:len(order)], vertices[-1], far[:len(order)] = order, len(order), [layer[v] for v in order]
    none = np.zeros(0, np.int64)
    kept = [edges.get(v, none) for v in order] + [none] * (most - len(order))
    at = np.concatenate(kept) if kept else none
    yield array(vertices, graph._ctx)
    yield _csr(graph, (most, graph.shape[1]), graph._values[at], graph._aux[1][at], np.cumsum([0, *map(len, kept)]))
    if chances is not None:
        listed = np.zeros(most, np.float32)
        listed[:len(order)] = chances[order]
        yield array(listed, graph._ctx)
    yield array(far, graph._ctx)


def dgl_csr_neighbor_uniform_sample(csr_matrix: Any, *seed_arrays: Any, num_args: int | None = None, num_hops: int = 1,
                                    num_neighbor: int = 2, max_num_vertices: int = 100) -> list[Any]:
    """A sample of a graph around each list of seeds: from each vertex up to num_hops away at most num_neighbor edges.

    For all lists of seeds: the sorted vertices, with their count as the last element; then the sampled graphs, a row
    for each vertex; then the distances of the vertices from the seeds.
    """
    _counted("dgl_csr_neighbor_uniform_sample", num_args, 1 + len(seed_arrays))
    return _sampled("dgl_csr_neighbor_uniform_sample", csr_matrix, seed_arrays, None, num_hops, num_neighbor,
                    max_num_vertices)


def dgl_csr_neighbor_non_uniform_sample(csr_matrix: Any, probability: Any, *seed_arrays: Any,
                                        num_args: int | None = None, num_hops: int = 1, num_neighbor: int = 2,
                                        max_num_vertices: int = 100) -> list[Any]:
    """As ``dgl_csr_neighbor_uniform_sample``, where a vertex is drawn in proportion to its probability; the vertices'
    probabilities are given before the distances."""
    _counted("dgl_csr_neighbor_non_uniform_sample", num_args, 2 + len(seed_arrays))
    return _sampled("dgl_csr_neighbor_non_uniform_sample", csr_matrix, seed_arrays, probability, num_hops,
                    num_neighbor, max_num_vertices)
