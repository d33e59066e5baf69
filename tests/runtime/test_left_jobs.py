"""Programs that are asked for when a process ends: later processes go on with them, before they ask for any."""
from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from hybrid.ir.text import to_text
from hybrid.runtime import background, left_jobs, once, plans, shared_objects, toolchain, unfinished, worker
from hybrid.runtime.job import Job, Units

from .test_unfinished import folder, program  # noqa: F401  a fixture

pytestmark = pytest.mark.skipif(toolchain.compiler() is None or os.environ.get("HYBRID_DEVICE", "cpu") != "cpu",
                                reason="a matter of compiled CPU programs")


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that this process runs."""
    path = tmp_path / "train.py"
    path.touch()
    monkeypatch.setattr(sys, "argv", [str(path)])
    return path


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of worker.py takes the settings of the process that asks."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(os, "chdir", lambda path: None)


def wanted(calls: int = 2) -> Job:
    """A job as a program in the background has it."""
    p = program()
    key = plans.key(p, frozenset())
    job = Job(str(key), lambda: (key, to_text(p)), frozenset())
    job.calls = calls
    return job


def ended_queue(*jobs: Job) -> None:
    """Submit jobs, which nobody begins, and end the process."""
    queue = background.Queue()
    queue._start = lambda at_once: None                          # type: ignore[method-assign]
    for job in jobs:
        queue.submit(job)
    queue.end()


def test_a_job_that_no_process_began_is_printed_and_compiled_later(folder: Path, script: Path) -> None:  # noqa: F811
    job = wanted()
    ended_queue(job)
    assert [p.name for p in folder.glob("job-*")] == [f"job-{job.name}.json"]
    assert worker._print_left() and not [*folder.glob("job-*")] and not [*folder.glob("plan-*")]
    assert len([*folder.glob("unfinished-*")]) == 1              # no compiler ran
    assert unfinished.go_on(lambda: None) and plans.holds(job.name)
    assert not worker._print_left() and not unfinished.go_on(lambda: None)


def test_jobs_that_are_not_wanted_are_not_kept(folder: Path, script: Path) -> None:  # noqa: F811
    once_called, last = wanted(1), wanted()
    last.last = True
    for job in (once_called, last):
        ended_queue(job)
        assert not [*folder.glob("job-*")]


def test_a_job_is_kept_while_a_process_works_on_it(folder: Path) -> None:  # noqa: F811
    job = wanted()
    line = {"key": job.name, "text": job.key_and_text()[1], **job.around}
    with left_jobs.begun(line):
        found = left_jobs.next_one()
        assert found == {**line, "tries": 1}
    assert left_jobs.next_one() is None


def test_what_ends_processes_is_not_tried_for_ever(folder: Path) -> None:  # noqa: F811
    job = wanted()
    left_jobs.keep({"key": job.name, "text": "no program", **job.around})
    found = [left_jobs.next_one() for _ in range(left_jobs.MOST_TRIES + 1)]
    assert [f is not None for f in found] == [True] * left_jobs.MOST_TRIES + [False]
    assert not [*folder.glob("job-*")]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"key": "another"}', '{"tries": "1"}'])
def test_damaged_files_are_removed(folder: Path, content: str) -> None:  # noqa: F811
    path = folder / f"job-{'0' * 32}.json"
    path.write_text(content)
    path.chmod(0o600)
    assert left_jobs.next_one() is None and not path.exists()


def test_what_cannot_be_printed_is_dropped(folder: Path) -> None:  # noqa: F811
    job = wanted()
    left_jobs.keep({"key": job.name, "text": "no program", **job.around})
    assert worker._print_left() and not [*folder.glob("job-*")]


def test_what_another_process_works_on_is_left_to_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    job = wanted()
    left_jobs.keep({"key": job.name, "text": job.key_and_text()[1], **job.around})
    monkeypatch.setattr(once._File, "take", lambda self, byte, patience: False)
    assert not worker._print_left() and len([*folder.glob("job-*")]) == 1


def test_a_script_that_left_something_is_noted_until_all_is_there(folder: Path, script: Path,  # noqa: F811
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(background.Queue, "expect", lambda self, traced: started.append(traced))
    monkeypatch.setenv("HYBRID_COMPILE", "background")
    monkeypatch.setattr(background.config, "usable_cores", lambda: 2)

    def begin() -> int:
        background._looked.clear()
        for _ in range(2):
            background.begin_early()
        return len(started)
    monkeypatch.setattr(background, "_looked", [])
    assert begin() == 0
    left_jobs.note()
    assert left_jobs.noted() and begin() == 1 and started == [False]
    ended_queue(wanted())
    assert left_jobs.noted()
    done = wanted()
    done.end(failed=False)
    ended_queue(done)
    assert not left_jobs.noted() and begin() == 1
    left_jobs.note()
    monkeypatch.setattr(sys, "argv", ["-c"])                     # another one, and no file
    assert not left_jobs.noted() and begin() == 1


SCRIPT = """
    import os, sys, time
    import hybrid as mx
    from hybrid import gluon, nd
    from hybrid.runtime import background, plan_names
    def files():
        return [n for n in os.listdir(os.environ["HYBRID_CACHE"]) if n.startswith(("plan-", "job-", "unfinished-"))]
    if len(sys.argv) > 1:                                    # the first process: ended while it plans
        f = mx.hybridize(lambda x: nd.tanh(x) * 9)
        for _ in range(3):
            f(nd.ones((3, 3)))
        while not any(n.endswith((".json", ".txt")) for n in files()):           # not one that is being written
            time.sleep(0.001)
        os._exit(0)
    stop = time.monotonic() + 60                             # the second one: it asks for nothing
    while [n[:5] + n[-4:] for n in files()] != ["plan-.txt"] and time.monotonic() < stop:
        time.sleep(0.01)
    print(files())
"""


def test_a_script_goes_on_with_what_it_left(folder: Path, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "twice.py"
    path.write_text(textwrap.dedent(SCRIPT))
    around = {**os.environ, "HYBRID_COMPILE": "background", "HYBRID_CACHE": str(folder),
              "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, str(path), "first"], env=around, check=True, timeout=100)
    assert len([*folder.glob("left-*")]) == 1
    said = subprocess.run([sys.executable, str(path)], env=around, check=True, timeout=100, capture_output=True,
                          text=True).stdout
    assert said.count("plan-") == 1 and "job-" not in said and "unfinished-" not in said, said
    assert not [*folder.glob("left-*")]


def test_units_tell_how_long_the_rest_takes() -> None:
    units = Units()
    assert units.seconds_left(time.monotonic()) == 0.0           # nothing is known
    begin = time.monotonic()
    units.tell(3, 10)
    units._first = 3, begin - 2.0
    assert units.seconds_left(begin) == pytest.approx(7 * 2.0, abs=0.1)      # none came within two seconds
    units.tell(7, 10)
    assert units.seconds_left(time.monotonic()) == pytest.approx(3 * 0.5, abs=0.1)
    units.tell(10, 10)
    assert units.seconds_left(time.monotonic()) <= 0.0


@pytest.mark.parametrize("left, waits", [(2, True), (60, False)])
def test_the_end_waits_for_no_program_that_takes_longer(left: int, waits: bool) -> None:
    queue = background.Queue()
    compiler = background._Compiler(queue, at_once=False)
    compiler.job, compiler.began = wanted(), time.monotonic() - 0.2
    compiler.units.tell(0, 10 + left)
    compiler.units._first = 0, time.monotonic() - 0.2
    compiler.units.tell(10, 10 + left)
    begin = time.monotonic()
    compiler.wait_for_job(begin)
    assert (time.monotonic() - begin >= 0.15) == waits


def test_units_are_told_as_they_come(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(shared_objects, "watchers", [lambda done, count: told.append((done, count))])
    text = "#ifndef HY_UNIT\n#define HY_UNIT 0\n#define HY_UNITS 1\n#endif"
    shared_objects.build(f"{text}\n{shared_objects.UNITS}\nvoid net(void **b) {{ (void)b; }}\n#endif\n", units=3)
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
