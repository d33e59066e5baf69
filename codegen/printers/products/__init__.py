"""Printers of contractions and attention in C: matrix products, dot products, products with sparse operands."""
