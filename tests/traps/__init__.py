"""Traps: small programs of the kinds that users of tracing compilers report, each run eagerly and hybridized over
several calls.

A case is a generator that takes ``H`` (which hybridizes a function, class or block, or leaves it as it is) and yields
what a user sees. ``python -m tests.traps`` prints verdicts by category.
"""
