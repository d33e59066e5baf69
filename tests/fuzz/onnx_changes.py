"""Ways to damage an ONNX file. Each takes a generator of random numbers and a model, and gives the file's bytes."""
from __future__ import annotations

import random
from typing import Any, Callable, Iterator

SIZES = (-1, 0, 1, 2, 3, 7, 1 << 20, 1 << 31, (1 << 63) - 1, -(1 << 63))


def changed_bytes(rng: random.Random, data: bytes) -> bytes:
    """The file with some bytes set, cut out, or doubled."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(out) or 1)
        kind = rng.randrange(4)
        if kind == 0 and out:
            out[at] = rng.randrange(256)
        elif kind == 1 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del out[at:at + rng.randrange(1, 16)]
        else:
            out[at:at] = out[at:at + rng.randrange(1, 16)]
    return bytes(out)


def changed_fields(rng: random.Random, model: Any) -> bytes:
    """The file with some fields of its messages replaced, dropped, or moved."""
    out = _copy(model)
    for _ in range(rng.choice((1, 1, 2, 4))):
        _change(rng, out.graph)
    return out.SerializeToString()


def _copy(model: Any) -> Any:
    out = type(model)()
    out.CopyFrom(model)
    return out


def _change(rng: random.Random, graph: Any) -> None:
    nodes = list(graph.node)
    node = rng.choice(nodes) if nodes else None
    shapes = [v.type.tensor_type.shape for v in (*graph.input, *graph.output)]
    kind = rng.randrange(8)
    if kind == 0 and node is not None and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(["", "none", *(o for n in nodes for o in n.output),
                                                                 *(v.name for v in graph.input)])
    elif kind == 1 and node is not None and node.input:
        del node.input[rng.randrange(len(node.input))]
    elif kind == 2 and node is not None:
        node.op_type = rng.choice([rng.choice(nodes).op_type, "Reshape", "Loop", "Tile", "Expand", "Range", "None"])
    elif kind == 3 and node is not None and node.attribute:
        a = rng.choice(list(node.attribute))
        a.i, a.f = rng.choice(SIZES), rng.choice((0.0, -1.0, float("nan"), 1e38))
        a.type = rng.randrange(0, 15) if rng.random() < 0.3 else a.type
        if a.ints:
            a.ints[rng.randrange(len(a.ints))] = rng.choice(SIZES)
    elif kind == 4 and node is not None and node.attribute:
        del node.attribute[rng.randrange(len(node.attribute))]
    elif kind == 5 and graph.initializer:
        t = rng.choice(list(graph.initializer))
        t.data_type = rng.randrange(0, 24) if rng.random() < 0.5 else t.data_type
        if t.dims:
            t.dims[rng.randrange(len(t.dims))] = rng.choice(SIZES)
    elif kind == 6 and shapes and (shape := rng.choice(shapes)).dim:
        rng.choice(list(shape.dim)).dim_value = rng.choice(SIZES)
    elif kind == 7 and graph.input:
        rng.choice(list(graph.input)).type.tensor_type.elem_type = rng.randrange(0, 24)


def truncated(rng: random.Random, model: Any) -> bytes:
    """The first bytes of the file."""
    data = model.SerializeToString()
    return data[:rng.randrange(len(data))]


def graphs(graph: Any) -> Iterator[Any]:
    """A graph, and those within its nodes."""
    yield graph
    for node in graph.node:
        for a in node.attribute:
            for inner in ([a.g] if a.HasField("g") else list(a.graphs)):
                yield from graphs(inner)


def inner_fields(rng: random.Random, model: Any) -> bytes:
    """Fields of a graph within a node changed, where there is one."""
    out = _copy(model)
    for _ in range(rng.choice((1, 2))):
        _change(rng, rng.choice(list(graphs(out.graph))[-8:]))
    return out.SerializeToString()


def swapped(rng: random.Random, model: Any) -> bytes:
    """Two messages of one kind, or their lists, have each other's contents: nodes, attributes, tensors, inputs."""
    out = _copy(model)
    graph = rng.choice(list(graphs(out.graph)))
    lists = [m for m in (graph.node, graph.initializer, graph.input, graph.output,
                         *(n.attribute for n in graph.node)) if len(m) > 1]
    for _ in range(rng.choice((1, 2)) if lists else 0):
        a, b = rng.sample(range(len(chosen := rng.choice(lists))), 2)
        first, second = chosen[a], chosen[b]
        kept = type(first)()
        kept.CopyFrom(first)
        first.CopyFrom(second)
        second.CopyFrom(kept)
        if rng.random() < 0.5 and hasattr(first, "name"):  # each under the name that it had
            first.name, second.name = second.name, first.name
    return out.SerializeToString()


def enormous(rng: random.Random, model: Any) -> bytes:
    """Sizes, counts and numbers far beyond what memory holds."""
    out = _copy(model)
    big = (1 << 20, (1 << 31) - 1, 1 << 32, 1 << 40, (1 << 63) - 1)
    graph = out.graph
    for _ in range(rng.choice((1, 2, 3))):
        kind, nodes = rng.randrange(5), [n for n in graph.node if n.attribute]
        if kind == 0 and nodes:
            a = rng.choice(list(rng.choice(nodes).attribute))
            a.i = rng.choice(big)
            a.ints[:] = [rng.choice(big) for _ in a.ints]
        elif kind == 1 and graph.initializer:              # the numbers of a shape, an axis, a count
            t = rng.choice([t for t in graph.initializer if t.data_type == 7] or list(graph.initializer))
            if t.data_type == 7 and t.raw_data:
                t.raw_data = b"".join(rng.choice(big).to_bytes(8, "little") for _ in range(len(t.raw_data) // 8))
            t.int64_data[:] = [rng.choice(big) for _ in t.int64_data]
        elif kind == 2 and graph.initializer:
            t = rng.choice(list(graph.initializer))
            t.dims[:] = [rng.choice(big) for _ in range(len(t.dims) or 1)]
        elif kind == 3 and graph.input:
            for d in rng.choice(list(graph.input)).type.tensor_type.shape.dim:
                d.dim_value = rng.choice(big)
        elif kind == 4 and graph.node:
            node = rng.choice(list(graph.node))
            node.input.extend(list(node.input)[-1:] * rng.choice((1, 70, 3000)))
    return out.SerializeToString()


def nested(rng: random.Random, model: Any) -> bytes:
    """Graphs in graphs, functions that call themselves, nodes that read their own results, names that come twice."""
    from onnx import helper as h  # noqa: PLC0415
    out = _copy(model)
    graph, kind = out.graph, rng.randrange(5)
    node = rng.choice(list(graph.node)) if graph.node else None
    if kind == 0 and node is not None:                     # protobuf's messages are at most 100 deep
        for _ in range(rng.choice((1, 5, 20, 28))):
            inner = h.make_graph([node], "g", [], [h.make_tensor_value_info(o, 1, None) for o in node.output])
            node = h.make_node("If", list(node.input)[:1], list(node.output), then_branch=inner, else_branch=inner
                               if rng.random() < 0.05 else h.make_graph([], "e", [], []))
        graph.node.add().CopyFrom(node)
    elif kind == 1 and node is not None:
        f = out.functions.add()
        f.CopyFrom(h.make_function("own", "f", list(node.input), list(node.output),
                                   [h.make_node("f", list(node.input), list(node.output), domain="own")],
                                   list(out.opset_import)))
        node.op_type, node.domain = "f", "own"
        out.opset_import.add(domain="own", version=1)
    elif kind == 2 and node is not None and node.output:
        node.input.append(rng.choice(list(node.output)))
    elif kind == 3 and node is not None:
        graph.node.add().CopyFrom(node)
    elif kind == 4 and graph.input:
        graph.input.add().CopyFrom(rng.choice(list(graph.input)))
    return out.SerializeToString()


def elsewhere(rng: random.Random, model: Any) -> bytes:
    """Other opsets, producers' domains, numbers in files beside the model, sparse numbers, lengths that are open."""
    out = _copy(model)
    kind = rng.randrange(7)
    if kind == 0 and out.opset_import:
        rng.choice(list(out.opset_import)).version = rng.choice((-1, 0, 1, 6, 7, 9, 11, 12, 26, 1000, (1 << 63) - 1))
    elif kind == 1:
        del out.opset_import[:]
        out.ir_version = rng.choice((0, 3, 1000))
    elif kind == 2 and out.graph.initializer:
        t = rng.choice(list(out.graph.initializer))
        t.data_location = 1
        t.external_data.add(key="location", value=rng.choice(("/dev/zero", "../a", "none.bin", "/etc/hostname", "")))
        t.external_data.add(key=rng.choice(("offset", "length")), value=rng.choice(("-1", "1099511627776", "x")))
        t.ClearField("raw_data")
    elif kind == 3 and out.graph.initializer:
        t, s = rng.choice(list(out.graph.initializer)), out.graph.sparse_initializer.add()
        s.values.CopyFrom(t)
        s.indices.CopyFrom(rng.choice(list(out.graph.initializer)))
        s.dims.extend(rng.choice(SIZES) for _ in range(rng.randrange(4)))
    elif kind == 4 and out.graph.node:
        node = rng.choice(list(out.graph.node))
        node.domain = rng.choice(("com.microsoft", "ai.onnx.ml", "ai.onnx", "\x00"))
    elif kind > 4:
        for d in (d for v in out.graph.input for d in v.type.tensor_type.shape.dim if rng.random() < 0.6):
            d.dim_param = rng.choice(("n", "t", ""))
        if rng.random() < 0.5:
            _change(rng, out.graph)
    return out.SerializeToString()


ALL: tuple[Callable[[random.Random, Any], bytes], ...] = (
    lambda rng, model: changed_bytes(rng, model.SerializeToString()),
    changed_fields, truncated, inner_fields, swapped, enormous, nested, elsewhere)


def first_kinds(rng: random.Random, model: Any) -> bytes:
    """Bytes or fields changed."""
    data = model.SerializeToString()
    return changed_bytes(rng, data) if rng.random() < 0.4 else changed_fields(rng, model)


def any_kind(rng: random.Random, model: Any) -> bytes:
    """One of all the ways."""
    return rng.choice(ALL)(rng, model)
