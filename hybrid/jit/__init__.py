"""``hybridize``: tracing a call, guarding what it read, and calling the compiled program."""
