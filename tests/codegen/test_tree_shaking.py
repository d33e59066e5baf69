"""Programs hold what they use of the texts in kernels/, and nothing else of them."""
from __future__ import annotations

import itertools
import re
from pathlib import Path

from hybrid import kernels
from hybrid.codegen import c as printer
from hybrid.codegen import lanes
from hybrid.codegen.program.tree_shaking import needed
from hybrid.ir.parse import words

TEXT = """// goes with whom names it
union bits { float f; int i; };
typedef float lanes4 __attribute__((vector_size(16)));
typedef lanes4 other_lanes;
typedef int (*stays)(int);
#define LANES 4
#define TWICE(x) \\
    (helper(x) + helper(x))
// goes with its function
HY_FN float helper(float x) {
    if (x > 0) {
        return x;                   // TWICE, only said
    }
    return -x;
}
HY_FN float unused(float x) { return helper(x) * LANES; }
#define HY_MADE(name, T) HY_FN T name(T x) { return x; }
HY_MADE(made, float)
HY_MADE(other, double)
// two ways
#ifdef __WIDE__
#ifdef __AVX__
HY_FN float way(float x) { return made(x); }
#else
HY_FN float way(float x) { return x; }
#endif
#endif
"""


def kept(program: str) -> str:
    return needed((TEXT,), set(words(program)))


def test_what_nothing_uses_is_left_out() -> None:
    assert kept("void net(void) {}") == "typedef int (*stays)(int);"


def test_types_are_kept_where_something_names_them() -> None:
    assert "// goes with whom names it\nunion bits" in kept("union bits b;")
    assert "typedef float lanes4" in kept("other_lanes v;") and "typedef lanes4 other_lanes;" in kept("other_lanes v;")
    assert "other_lanes" not in kept("lanes4 v;") and "union" not in kept("lanes4 v;")


def test_what_is_used_brings_what_it_uses() -> None:
    text = kept("y = TWICE(x);")
    assert ("#define TWICE(x) \\\n    (helper(x) + helper(x))" in text
            and "// goes with its function\nHY_FN float helper" in text)
    assert "unused" not in text and "LANES" not in text and "two ways" not in text
    assert "#define LANES 4" in kept("unused(1)") and "HY_FN float helper" in kept("unused(1)")


def test_functions_that_macros_make_and_conditions() -> None:
    text = kept("way(1)")
    assert (text.count("HY_FN float way") == 2 and "HY_MADE(made, float)" in text and "HY_MADE(other" not in text
            and "#define HY_MADE" in text)
    assert text.count("#if") == text.count("#endif") == 2 and "// two ways\n#ifdef __WIDE__" in text


def test_texts_are_one_text() -> None:
    """What names something of another text, before it or after it, brings that."""
    cuts = [TEXT.index(line) for line in ("typedef float", "#define LANES", "// goes with its", "#define HY_MADE",
                                          "HY_MADE(other", "// two ways", "HY_FN float way(float x) { return x")]
    for program, cut in itertools.product(("way(1)", "unused(1)", "lanes4 v;", "void net(void) {}"), cuts):
        assert needed((TEXT[:cut].rstrip("\n"), TEXT[cut:]), set(words(program))) == kept(program), (program, cut)


def test_names_of_all_texts_are_seen() -> None:
    """Each function of the texts is kept where a program names it, and none where it names none."""
    text = printer.prelude() + lanes.support(16, {"hyv_pow", "hyv_philox", "hyv_sin"})
    functions = set(re.findall(r"^HY_FN [^(]*?(\w+)\(", text, re.MULTILINE))
    assert len(functions) > 80 and "HY_FN " not in "".join(re.findall(r"^HY_FN.*",
                                                                      needed((text,), {"void", "net", "b"}),
                                                                      re.MULTILINE))
    for name in functions:
        assert re.search(rf"^HY_FN [^(]*?\b{name}\(", needed((text,), {name}), re.MULTILINE), name


def test_macros_of_the_headers_have_different_names() -> None:
    """A program may hold several of them. vector_either.h stands inside of vector.h, under a condition."""
    files = {f.name: {line.split()[1].split("(")[0] for line in f.read_text().splitlines()
                      if line.startswith("#define ")} for f in (Path(kernels.__file__).parent / "c").glob("*.h")}
    assert "HY_TO_INT" in files["prelude.h"]
    for a, b in itertools.combinations(sorted(files), 2):
        assert {a, b} == {"vector.h", "vector_either.h"} or files[a].isdisjoint(files[b]), (a, b)
