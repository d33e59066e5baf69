"""Passes from a traced program to fused kernels; the pipeline is a list (pipeline.py)."""
