"""Functions that run in threads of their own: an error of one is the test's, and one that does not end shows where it
stands."""
from __future__ import annotations

import sys
import threading
import traceback
from typing import Any, Callable


def at_once(*functions: Callable[[], Any], seconds: float = 120) -> list[Any]:
    """What functions give that run at the same time, each in a thread of its own. The first error is raised; an
    AssertionError shows the stacks of threads that have not ended after some seconds."""
    found: list[Any] = [None] * len(functions)
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            found[i] = functions[i]()
        except BaseException as err:  # noqa: BLE001  the test's thread raises it
            errors.append(err)
    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(functions))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(seconds if not errors else 1)
    if errors:
        raise errors[0]
    frames = sys._current_frames()
    stuck = ["".join(traceback.format_stack(frames[t.ident])) for t in threads if t.is_alive() and t.ident in frames]
    assert not stuck, f"{len(stuck)} threads have not ended after {seconds} seconds:\n" + "\n".join(stuck)
    return found
