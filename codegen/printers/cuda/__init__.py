"""Printers of CUDA kernels."""
