"""The operator graph: Symbol, inference of shapes and dtypes, lowering to primitives."""
