"""Products with packed matrices, and 1x1 convolutions, of data that is often zero (sparsity.py): a row's sums for some
panels at once."""
from __future__ import annotations

import math

from hybrid.ir.stmt import Stmt, When

from hybrid.codegen.program import local
from .blocked import Direct
from hybrid.codegen.loops import PARALLEL_WORK, Printed
from hybrid.codegen.dialect import PARALLEL
from hybrid.codegen.nest import count
from hybrid.codegen.printers.products.sparsity import (HOPED, LEAST_ROWS, STEPS, VALUES, bits, every_step, looks,
                                                       parts, pays, splits_vectors, sums, widest)

MOST_DEPTH = 4096               # bits of so many steps for all rows of a part stay small


class Skipped(Direct):
    """A packed product whose data is looked at first: the tiles of all steps take over where too little of it is
    zero."""

    def print(self) -> Printed:
        """The kernel: the one of all steps, and around it the one that leaves out those of zeros, if it pays."""
        together = self._together()
        if together is None:
            return super().print()
        name, self.name = self.name, f"{self.name}_dense"
        full = super().print()
        self.name = name
        return self.printed([*full.code, *self._either(*together)])

    def _together(self) -> tuple[int, float] | None:
        """Panels whose sums are done at once, and the part of the data that may be other than zero; None where it does
        not pay."""
        rows = self.batch * self.oh * self.ow
        plain = self.kh == self.kw == 1 and (self.sy, self.sx, self.py,
                                             self.px) == (1, 1, 0, 0) and (self.oh, self.ow) == (self.h, self.wide)
        if (self.groups > 1 or self.joined > 1 or self.volume or not plain or self.lanes < 8 or rows < LEAST_ROWS
            or not self.lanes <= self.deep <= MOST_DEPTH):
            return None
        panels, width = self.weights[0], self.weights[-1]
        found = [(pays(self.deep, n * width // self.lanes, panels * width / self.lanes, -(-panels // n),
                       min(rows, VALUES // 4 // (n * width)), split=splits_vectors(self.target)), n)
                 for n in range(1, min(widest(self.target, self.deep) * self.lanes // width, panels) + 1)]
        part, n = max(found, default=(0.0, 0))
        return (n, part) if part >= HOPED else None

    def _either(self, together: int, part: float) -> list[Stmt]:
        rows, depth, width = self.batch * self.oh * self.ow, self.deep, self.width
        panel, whole = math.prod(self.weights[1:]), together * width
        at = [p * panel + j * self.lanes for p in range(together) for j in range(self.nv)]
        text = sums(self.name, self.lanes, at, list(range(0, whole, self.lanes)), width, depth > STEPS)
        least = -(-rows // max(1, VALUES // 4 // whole))
        block, words = -(-rows // least), -(-depth // STEPS)
        more = ", kb" if words > 1 else ""
        body: list[Stmt] = [f"const long rb = {rows}l * part / parts, rows = {rows}l * (part + 1) / parts - rb;",
                f"const float *values = A + rb * {depth}l;",
                local.array("unsigned long", "some", block * words, 8), local.array("float", "sums", block * whole),
                *bits("rows", depth, "values", depth),
                # the last ones overlap those before them
                f"for (long done = 0; done < {self.panels}; done += {together}) {{",
                f"  const long first = done < {self.panels - together} ? done : {self.panels - together};",
                f"  const float *B = {self.w} + first * {panel}l;",
                f"  for (long kb = 0; kb < {depth}; kb += {STEPS}) {{",
                f"    const long kn = kb + {STEPS} < {depth} ? {STEPS} : {depth} - kb;",
                f"    {every_step(f'B + kb * {width}, {together}, kn * {width}, {panel}l', 'kn')}",
                "    for (long i = 0; i < rows; i++)",
                f"      {self.name}_sums(values + i * {depth}l + kb, some[i * {words} + kb / {STEPS}] | all, B + kb * "
                f"{width}, sums + i * {whole}{more});", "  }",
                f"  for (long o = done; o < first + {together}; o++) {{", f"    const long c0_ = o * {width};",
                self._after(whole), "  }", "}"]
        work = rows * depth * self.filters
        return [text, self.head(), f"  const float *A = {self.x};",
                f"  if (!{looks('A', part, rows, depth, depth)}) {{",
                f"    {self.name}_dense({self.passed}, scratch);", "    return;", "  }",
                f"  {parts(least, max(least, rows // LEAST_ROWS))}",
                *([f"  {PARALLEL}"] if work >= PARALLEL_WORK else []), "  for (long part = 0; part < parts; part++) {",
                *body, "  }", "}"]

    def _after(self, whole: int) -> Stmt:
        """What follows the sums of panel ``o``, for all rows."""
        def rows(partial: list[int]) -> Stmt:
            value = f"HYV_LOAD(sums + i * {whole} + (o - first) * {self.width} + {{}})"
            return count("i", "rows", [self.finished(j, [("rb + i", value.format(j * self.lanes))], partial[j])
                                       for j in range(self.nv) if partial[j] >= 0])
        last = self.partial(self.panels - 1, self.width)
        if self.panels == 1 or not any(last):
            return rows(last)
        return When(f"o < {self.panels - 1}", (rows([0] * self.nv),), (rows(last),))
