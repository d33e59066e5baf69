"""The ordinary training loop as one program: calls under ``record`` are put off until ``Trainer.step``, which runs all
of a round as one compiled step, once equal rounds came before. Without a Trainer, the last write to a parameter does.

``events.py``: what a round is made of, and the tree of those that were met. ``round.py``: one round while it lasts.
``rounds.py``: following it, putting off, doing what was put off. ``unrelated.py``: what came before a round.
``held.py``: arrays that every round uses. ``promised.py``: what stands for the arrays of an event that was put off.
``joined.py``: the one program of a round.
``entrances.py``: where blocks and operators report their calls, and which calls are never put off. ``updates.py``: the
same for what computes gradients and updates.
"""
