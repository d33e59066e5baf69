"""The API reference: pages written from the registry of operators and from the public classes, at each build.

A Sphinx extension. The pages (``api/*.rst``) are no part of the sources: git ignores them.
"""
from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, Callable, Iterator

import calls
import hybrid
from hybrid.ops import registry
from hybrid.ops.attributes import REQUIRED
from hybrid.ops.documentation import kind_of
from hybrid.ops.examples import examples, read
from hybrid.ops.registry import OpDef
from hybrid.stubs import numpy_files

CALLS: dict[str, calls.Call] = {}
CLASSES = read(Path(__file__).with_name("examples.txt"))
LITERAL = re.compile(r"(``.+?``)", re.S)
# the room of an operator's definition, and what its page is called
GROUPS = {
    "elementwise": "Elementwise functions", "reduction": "Sums, means and other reductions",
    "shape": "Shapes", "slicing": "Shapes", "copying": "Making arrays", "quantization": "Numbers of 8 bits",
    "arrange": "Arranging elements", "indexing": "Indexing", "order": "Sorting",
    "sequence": "Sequences", "linalg": "Linear algebra", "triangles": "Linear algebra", "einsum": "Linear algebra",
    "decompose": "Linear algebra", "orthogonal": "Linear algebra", "nn": "Layers as functions",
    "conv": "Convolutions and pooling", "pooling": "Convolutions and pooling",
    "deformable": "Convolutions and pooling", "patches": "Convolutions and pooling",
    "padding": "Convolutions and pooling", "norm": "Normalisation", "attention": "Attention", "rnn": "Recurrent layers",
    "output": "Losses as functions", "ctc": "Losses as functions", "image": "Images", "resize": "Images",
    "resampling": "Images", "boxes": "Boxes and detection", "multibox": "Boxes and detection",
    "proposal": "Boxes and detection", "regions": "Boxes and detection", "position_sensitive": "Boxes and detection",
    "random": "Random numbers", "distributions": "Random numbers", "densities": "Random numbers",
    "creation": "Making arrays", "updates": "Updates of optimizers", "updates_many": "Updates of optimizers",
    "assign": "Arranging elements", "np_arrange": "NumPy's arranging", "np_linalg": "NumPy's linear algebra",
    "np_files": "Making arrays", "np_fourier": "NumPy's Fourier transforms"}
OTHER = "Further operators"
NAMESPACES = ("nd", "np", "npx")
# what holds for every operator
COMMON = ("Operators take arrays first, then attributes by name, and give one array unless it says otherwise; ``out=`` "
          "names an array to write into. Every name of ``nd`` is one of ``sym`` too. Arrays that do not fit together, "
          "or do not fit the attributes, are a :py:class:`~errors.ShapeError` or :py:class:`~errors.DTypeError`; an "
          "attribute that is unknown, missing or not of its kind is an :py:class:`~errors.AttributeValueError`.")


def rst(text: str) -> str:
    """Plain prose as reStructuredText: literals stay, what else has a meaning there is escaped."""
    return "".join(p if k % 2 else re.sub(r"([\\*|_`])", r"\\\1", p) for k, p in enumerate(LITERAL.split(text)))


def prose(doc: str, example: bool = True) -> Iterator[str]:
    """A docstring's paragraphs; doctests and indented text stay as they are. example: with an operator's example."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(doc)):
        lines = part.split("\n")
        if len(lines) > 2 and not lines[1].strip("-"):   # a part of what ``help`` of an operator says
            yield from section(lines[0], lines[2:] if example or lines[0] != "Example" else [])
        elif lines[0].lstrip().startswith(">>>"):
            yield inspect.cleandoc(part)
        elif lines[0].startswith((" ", "|")):
            yield "::\n\n" + "\n".join("    " + line for line in lines)
        else:
            yield rst(re.sub(r"::$", ":", " ".join(line.strip() for line in lines)))
        yield ""


def section(title: str, rows: list[str]) -> Iterator[str]:
    """A part of an operator's docstring; what holds for all operators is said once, on top of their pages."""
    if title == "Example":
        yield "\n".join(rows)
    elif title not in ("Result", "Errors"):
        yield "\n".join(f":param {rst(name)}: {rst(said)}" for name, _, said in (row.partition(": ") for row in rows))


def indented(lines: Any, by: int = 3) -> list[str]:
    """Lines moved to the right."""
    return [" " * by + line if line else "" for text in lines for line in text.split("\n")]


def heading(text: str, mark: str = "=") -> list[str]:
    """A title."""
    return [text, mark * len(text), ""]


def location(fn: Any) -> str:
    """Where something is defined, as a path in the repository with the line."""
    fn = inspect.unwrap(getattr(fn, "fn", fn))
    try:
        path, line = inspect.getsourcefile(fn) or "", inspect.getsourcelines(fn)[1]
    except (OSError, TypeError):
        return ""
    parts = Path(path).parts
    at = max((i for i, p in enumerate(parts) if p == "hybrid"), default=None)
    return f"``{'/'.join(parts[at:])}:{line}``" if at is not None else ""


# ---- operators
def group(d: OpDef) -> str:
    """The page of an operator."""
    return GROUPS.get(d.fn.__module__.rsplit(".", 1)[-1], OTHER)


def operators() -> dict[str, list[OpDef]]:
    """Every public operator once, by its page."""
    pages: dict[str, list[OpDef]] = defaultdict(list)
    seen: set[int] = set()
    for space in NAMESPACES:
        for _, d in sorted(registry.namespace(space).items(), key=lambda row: row[0].lower()):
            if id(d) not in seen:
                seen.add(id(d))
                pages[group(d)].append(d)
    return dict(sorted(pages.items(), key=lambda row: (row[0] == OTHER, row[0])))


def public_names(d: OpDef) -> list[str]:
    """The full names of an operator's functions: the one that says most first."""
    found = [f"{space}.{n}" for space in NAMESPACES for n, o in registry.namespace(space).items() if o is d]
    return sorted(found, key=lambda n: (NAMESPACES.index(n.split(".")[0]), "_" in n and n.startswith("nd._"),
                                        n.split(".", 1)[1] != d.name, n))


def attributes(d: OpDef) -> list[tuple[str, Any]]:
    """The attributes that a call gives: not those that its arrays name, nor the number of arrays."""
    return [(n, a) for n, a in d.attrs.items() if n not in d.inputs and n != d.arity_attr]


def signature(d: OpDef) -> str:
    """An operator's parameters."""
    if d.variadic:
        first = [f"*{d.inputs[0]}"]
    else:
        first = [n + ("=None" if n in d.optional else "") for n in d.inputs]
    named = [n + ("" if a.default is REQUIRED else f"={a.default!r}") for n, a in attributes(d)]
    star = ["*"] if named and not d.variadic and any("=" in p for p in first) else []
    return f"({', '.join([*first, *star, *named])})"


def operator(d: OpDef) -> Iterator[str]:
    """One operator: what it computes, its parameters, an example, its names and its source."""
    names = public_names(d)
    yield f".. py:function:: {names[0]}{signature(d)}"
    yield ""
    body = [*prose(d.__doc__ or f"The operator {d.name}.")]
    if "key" in d.needs:
        body += ["It draws random numbers: ``mx.random.seed`` makes them repeat.", ""]
    for n in d.inputs:
        notes = [w for w, holds in (("any number of arrays", d.variadic), ("may be left out", n in d.optional),
                                    ("an auxiliary state, which training calls write", n in d.aux)) if holds]
        body.append(f":param {rst('*' * d.variadic + n)}: {', '.join(notes) or 'an array'}")
    for n, a in attributes(d):
        default = "" if a.default is REQUIRED else f"; default ``{a.default!r}``"
        kind = re.sub(r"('[^']*')", r"``\1``", kind_of(a)) if "one of" in kind_of(a) else kind_of(a)
        body.append(f":param {rst(n)}: {rst(kind)}{default}{'. ' + rst(a.doc) if a.doc else ''}")
    if d.visible is not None or d.outputs is not None:
        body.append(":returns: one array, or a list of several where the attributes ask for them.")
    if d.name in CALLS:
        of_each = calls.dtypes(d, CALLS[d.name])
        body += [f":Dtypes: {of_each}"] if of_each else []
        body.append(f":Shapes: {calls.shapes(CALLS[d.name])}, as here:")
    body.append("")
    if d.name in examples():
        body += ["\n".join(examples()[d.name]), ""]
    further = [f"``{n}``" for n in names[1:]]
    files = sorted({d.name, *d.json} - {n.split(".", 1)[1] for n in names})
    body.append(" · ".join(p for p in (f"Also {', '.join(further)}" if further else "",
                                       f"in files ``{'``, ``'.join(files)}``" if files else "", location(d)) if p))
    yield from indented(body)
    yield ""


def operator_pages() -> dict[str, list[str]]:
    """The pages of the operators, by file name."""
    out = {}
    for title, members in operators().items():
        lines = [*heading(title), COMMON, ""]
        for d in members:
            lines += operator(d)
        out["op-" + re.sub(r"\W+", "-", title.lower())] = lines
    return out


# ---- functions and classes of modules
def shown(signature: str) -> str:
    """A signature without the quotes and names of modules that annotations have."""
    return re.sub(r"'([^']*)'(?=[,)\] =]|$)", r"\1", re.sub(r"(: |-> )'([^']*)'", r"\1\2", signature))


def parameters(value: Any) -> str:
    """The parameters of a function or class."""
    try:
        sig = inspect.signature(value)
    except (TypeError, ValueError):
        return "()"
    plain = [p.replace(annotation=p.empty) for p in sig.parameters.values() if p.name != "self"]
    return re.sub(r"<[^<>]*>", "...", str(sig.replace(parameters=plain, return_annotation=sig.empty)))


@functools.cache
def public_classes() -> frozenset[type]:
    """The classes that the pages of the modules show."""
    return frozenset(value for _, members in MODULES.values() for _, value in members() if inspect.isclass(value))


def own_methods(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods that a class says itself, and that say what they do."""
    for name, member in vars(cls).items():
        fn = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if not name.startswith("_") and name not in ("hybrid_forward", "forward") and inspect.isfunction(fn) \
                and fn.__doc__:
            yield name, fn


def entry(name: str, value: Any) -> Iterator[str]:
    """A function or class of a module."""
    cls = inspect.isclass(value)
    yield f".. py:{'class' if cls else 'function'}:: {name}{parameters(value)}"
    yield ""
    doc = (value.__dict__.get("__doc__") if cls else value.__doc__) or ""
    if doc.startswith("NumPy's own"):                    # then NumPy's whole text follows
        doc = "\n\n".join(re.split(r"\n\s*\n", inspect.cleandoc(doc))[:2])
    body = [*prose(doc, name not in CLASSES)]
    if cls:
        base = next((b.__name__ for b in value.__mro__[1:] if b in public_classes()), None)
        body += [f"A kind of ``{base}``.", ""] if base else []
    if name in CLASSES:
        body += ["\n".join(CLASSES[name]), ""]
    if cls:
        for n, fn in own_methods(value):
            body += [f".. py:method:: {n}{parameters(fn)}", "", *indented(prose(fn.__doc__ or "")), ""]
    body.append(location(value))
    yield from indented(body)
    yield ""


def listed(module: str, prefix: str) -> Callable[[], Iterator[tuple[str, Any]]]:
    """The public names of a module that are classes or functions."""
    def found() -> Iterator[tuple[str, Any]]:
        room = importlib.import_module(f"hybrid.{module}")
        said = getattr(room, "__all__", None)
        for name in said or [n for n in vars(room) if not n.startswith("_")]:
            value = getattr(room, name)
            here = "hybrid" if said else room.__name__
            if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__.startswith(here):
                yield f"{prefix}.{name}", value
    return found


def numpy_functions() -> Iterator[tuple[str, Any]]:
    """The functions of ``np`` that no operator gives."""
    own = registry.namespace("np")
    for name, fn in numpy_files.documented().items():
        if name not in own:
            yield f"np.{name}", fn


def nd_functions() -> Iterator[tuple[str, Any]]:
    """The functions of ``nd`` that no operator gives, control flow among them."""
    own = registry.namespace("nd")
    yield from ((f"nd.{n}", getattr(hybrid.nd, n)) for n in dir(hybrid.nd)
                if n not in own and inspect.isfunction(getattr(hybrid.nd, n)))
    yield from ((f"nd.contrib.{n}", getattr(hybrid.nd.contrib, n)) for n in ("foreach", "while_loop", "cond"))


def part_functions(part: str) -> Callable[[], Iterator[tuple[str, Any]]]:
    """The functions of ``np.linalg``, ``np.random`` or ``np.fft`` that no operator gives."""
    def found() -> Iterator[tuple[str, Any]]:
        room = getattr(hybrid.np, part)
        for n in getattr(room, "__all__", None) or dir(room):
            if f"{part}.{n}" not in registry.namespace("np") and inspect.isfunction(getattr(room, n)):
                yield f"np.{part}.{n}", getattr(room, n)
    return found


def top() -> Iterator[tuple[str, Any]]:
    """What the package itself gives: compiling and transforming functions, devices, errors."""
    for name in hybrid.__all__:
        value = getattr(hybrid, name)
        if (inspect.isclass(value) or inspect.isfunction(value)) and not name.startswith(("is_np", "np_", "use_np")):
            yield f"hybrid.{name}", value


MODULES: dict[str, tuple[str, Callable[[], Iterator[tuple[str, Any]]]]] = {
    "hybrid": ("hybrid: compile, transform, devices", top),
    "errors": ("errors", listed("base.errors", "errors")),
    "autograd": ("autograd: gradients", listed("autograd", "autograd")),
    "nn": ("gluon.nn: layers", listed("gluon.nn", "nn")), "rnn": ("gluon.rnn: recurrent layers",
                                                               listed("gluon.rnn", "rnn")),
    "loss": ("gluon.loss: losses", listed("gluon.loss", "loss")),
    "trainer": ("gluon: Trainer, parameters, blocks", listed("gluon", "gluon")),
    "optimizer": ("optimizer: optimizers", listed("optimizer", "optimizer")),
    "lr_scheduler": ("lr_scheduler: schedules of learning rates", listed("optimizer.lr_scheduler", "lr_scheduler")),
    "metric": ("metric: metrics", listed("metric", "metric")),
    "init": ("init: initializers", listed("mxnet.initializer", "init")),
    "data": ("gluon.data: datasets and loaders", listed("gluon.data", "data")),
    "transforms": ("gluon.data.vision.transforms: images", listed("gluon.data.vision.transforms", "transforms")),
    "nd-functions": ("nd: functions made of others, control flow", nd_functions),
    "np-functions": ("np: functions made of others", numpy_functions),
    "np-linalg": ("np.linalg: functions made of others", part_functions("linalg")),
    "np-random": ("np.random: random numbers", part_functions("random")),
    "np-fft": ("np.fft: Fourier transforms", part_functions("fft"))}


def module_pages() -> dict[str, list[str]]:
    """The pages of the modules, by file name."""
    out = {}
    for name, (title, members) in MODULES.items():
        rows: dict[str, Any] = {}
        for full, value in members():
            rows.setdefault(full, value)
        out[name] = [*heading(title), *(line for full, value in rows.items() for line in entry(full, value))]
    return out


def index(first: dict[str, list[str]], second: dict[str, list[str]]) -> list[str]:
    """The reference's first page."""
    return [*heading("API reference"),
            "Written from the registry of operators and the public classes at each build: parameters, defaults and "
            "examples are those of the code. ``help(nd.Convolution)`` says the same.", "",
            ".. toctree::", "   :maxdepth: 1", "   :caption: Modules", "", *(f"   {n}" for n in second), "",
            ".. toctree::", "   :maxdepth: 1", "   :caption: Operators of nd, sym, np and npx", "",
            *(f"   {n}" for n in first)]


def write(folder: Path) -> None:
    """Write every page; those that stay as they were keep their time, so that Sphinx does not read them again."""
    CALLS.update(calls.observed())
    first, second = operator_pages(), module_pages()
    pages = {**first, **second, "index": index(first, second)}
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.rst"):
        if old.stem not in pages:
            old.unlink()
    for name, lines in pages.items():
        path, text = folder / f"{name}.rst", "\n".join(lines) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Sphinx's entry."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "api"))
    return {"parallel_read_safe": True}
