"""The code generator: statements of kernels, and their text as C and CUDA."""
