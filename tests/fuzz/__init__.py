"""Random programs, eager against compiled: ``python -m tests.fuzz --seconds 60`` (or ``-n 500``, ``--seed 7``).

A program that differs is made smaller while it still differs, and printed so that it runs alone.
"""
