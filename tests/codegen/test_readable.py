"""The C of kernels as a reader sees it: comments that say what they compute, and no code that does nothing."""
from __future__ import annotations

import pytest

from hybrid import ir
from hybrid.codegen.program.comments import comment
from hybrid.ir.kernel import Kernel
from hybrid.ir.line_reader import declared
from hybrid.ir.parse import flat, parse
from hybrid.ir.rewriting import walk
from hybrid.ir.stmt import For, Function, spelled
from hybrid.runtime import build

from ..ir.printed_corpus import machine


@pytest.mark.parametrize("frozen", [frozenset(), frozenset({1, 2})])
def test_a_relu_after_a_dense_layer_reads_well(frozen: frozenset[int]) -> None:
    """A comment names operators and sizes; no branch compares numbers, no loop has one iteration, no variable is
    unread, and nothing is multiplied by zero or one."""
    x, w, b = (ir.input(i, s, "float32") for i, s in enumerate(((32, 100), (64, 100), (64,))))
    y = ir.map("relu", ir.dot(x, w, ((1,), (1,))) + ir.expand(ir.reshape(b, (1, 64)), (32, 64)))
    with machine(64):
        source = build.build(build.planned(ir.Program((x, w, b), (y,)), frozen)).source
    code = source[source.index("/* matrix product"):]
    assert "-> add[32, 64] -> relu[32, 64]\n   reads " in code and "; writes relu[32, 64] */\nstatic" in code
    kernel = parse(code)
    for s in walk(kernel):
        if isinstance(s, For):
            assert spelled(s.first) != "0" or spelled(s.last) != str(s.step), spelled(s.last)
    for f in (s for s in kernel if isinstance(s, Function)):
        lines = flat(f.body)
        words = [v for line in lines for v in line]
        unread = [d.name for line in lines for d in declared(line) if words.count(d.name) < 2]
        assert not unread, (f.name, unread)
        assert not any(line[i:i + 3] == ("if", " ", "(") and line[i + 3].isdecimal()
                       for line in lines for i in range(len(line)))
        text = f" {' '.join(w for w in words if not w.isspace())} "
        assert not any(f" {n} * " in text or f" * {n} " in text for n in ("0", "0l", "1", "1l")), f.name
        assert "( 0 )" not in text, f.name


def test_a_comment_says_what_is_read_and_how_many_kernels_are_alike() -> None:
    inputs = [ir.input(i, (100 + i, 100), "float32") for i in range(12)]
    k = Kernel(ir.map("exp", inputs[3]), 0, ())
    k.members[k.root] = []
    k.reads.update(dict.fromkeys(inputs, []))
    lines = comment(k, ["weight"], 3).splitlines()
    assert lines[0] == "/* elementwise: exp[103, 100]"
    assert lines[-1] == "   also computes 3 more with other arrays or numbers */"
    assert "reads weight[100, 100], packed weights[101, 100]," in lines[1] and len(lines) > 4
    assert all(len(line) <= 120 and line.count("[") == line.count("]") for line in lines)
    assert "input3[103, 100]" in comment(k)
