"""Choices that come before printing: the form of a kernel, sizes of tiles, the order of rows."""
