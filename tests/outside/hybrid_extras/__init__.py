"""A package that adds to hybrid from outside, one thing a module. tests/project/test_outside.py runs it."""
from . import contraction, elementwise, reduction, schedule, target  # noqa: F401  each registers what it is about
