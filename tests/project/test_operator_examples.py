"""Every public operator, layer, loss, optimizer and function of np has an example, which runs and prints what stands
below it."""
from __future__ import annotations

import re

import hybrid
from hybrid import nd
from hybrid.gluon import loss, nn
from hybrid.ops import registry
from hybrid.ops.documentation import document
from hybrid.ops.examples import examples, read
from hybrid.stubs import numpy_files
from hybrid.stubs.examples import differs, printed

from ..paths import ROOT


# what is there to be derived from, draws noise, or is used through others
BASES = {"Loss", "Optimizer", "Test", "SGLD", "Step", "Updater", "SymbolBlock"}

OPTIONS = {"set_printoptions"}


def public() -> set[str]:
    """The operators that some namespace gives."""
    return {d.name for space in ("nd", "np", "npx") for d in registry.namespace(space).values()
            if d.fn.__module__.startswith("hybrid.ops.")}


def test_every_public_operator_has_an_example() -> None:
    assert public() == set(examples()), public() ^ set(examples())


def test_the_examples_print_what_is_shown() -> None:
    hybrid.random.seed(0)
    wrong = [f"{name} shows\n{lines}\nand prints\n{now}" for name, lines in examples().items()
             if differs(lines, now := printed(lines))]
    assert not wrong, "\n\n".join(wrong) + "\n\npython -m hybrid.stubs.examples writes them anew"


def test_each_example_calls_its_operator() -> None:
    for name, lines in examples().items():
        calls = re.findall(r"\b(nd|np|npx)\.([\w.]+)\(", " ".join(lines))
        found = {d.name for space, called in calls if (d := registry.namespace(space).get(called)) is not None}
        # nd.random.gamma takes numbers and arrays, and is two operators
        found |= {f"_random_{called[7:]}" for space, called in calls if called.startswith("random.")}
        assert name in found, f"the example of {name} calls {sorted(found)}"


def test_the_examples_of_classes_print_what_is_shown() -> None:
    known = read(ROOT / "docs" / "examples.txt")
    hybrid.random.seed(0)
    wrong = [f"{name} shows\n{lines}\nand prints\n{now}" for name, lines in known.items()
             if differs(lines, now := printed(lines))]
    assert not wrong, "\n\n".join(wrong) + "\n\npython -m hybrid.stubs.examples docs/examples.txt writes them"
    rooms = {"nn": nn, "loss": loss, "optimizer": hybrid.optimizer}
    wanted = {f"{room}.{n}" for room, module in rooms.items() for n in module.__all__
              if isinstance(cls := getattr(module, n), type) and n not in BASES and ">>>" not in (cls.__doc__ or "")}
    wanted |= {f"np.{n}" for n in numpy_files.documented() if n not in registry.namespace("np") and n not in OPTIONS}
    assert wanted <= set(known), wanted - set(known)


def test_what_differs_is_told() -> None:
    assert not differs(["array([0.5, 1.0000001])"], ["array([0.5,  1.0])"])
    assert differs(["array([0.5, 1.1])"], ["array([0.5, 1.0])"]) and differs(["(1, 2)"], ["(1, 3)"])
    assert printed([">>> 1 + 1", "3"]) == [">>> 1 + 1", "2"]


def test_help_shows_the_example() -> None:
    for function, call in ((nd.softmax, ">>> nd.softmax("), (nd.SpatialTransformer, "...     transform_type=")):
        assert call in function.__doc__
    assert ">>> from hybrid import np\n>>> np.einsum(" in document(registry.find("_npi_einsum"), "einsum")
