"""A target: a C compiler that is taken for one without vectors."""
from __future__ import annotations

from hybrid.codegen.targets import NO_VECTORS, Row, register

ROW = register(Row("narrow C", ("narrow-cc",), NO_VECTORS))
