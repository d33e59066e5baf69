"""Printers of kernels that go through rows: reductions, sorting, running sums, concatenation, loops over time."""
