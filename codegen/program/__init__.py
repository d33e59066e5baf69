"""What is done to all kernels of a program after they are printed: sharing, units, exported text, memory of threads."""
