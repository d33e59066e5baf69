"""Printers: each takes a kernel of one form and gives its C or CUDA."""
