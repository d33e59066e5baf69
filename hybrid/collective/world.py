"""The processes (ranks) of one job over MPI: they agree on every call before data is sent, and end together.

Before each collective call the ranks exchange a hash of what they are about to do. Ranks that do different things
(other shapes, another order, one of them at the end of its program) get an error that names both, where MPI would wait
forever or add up unrelated numbers.
"""
from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import pickle
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Sequence

import numpy as np

from ..base import config, forking, system
from ..base.device import Context
from ..base.errors import HybridError, warn_user

SPINS = 200                              # tests of a request before the processor is given to others
LOOK_EVERY = 1.0                         # seconds between looks at the other ranks
STRAGGLER_AFTER = 10.0                   # seconds of waiting after which the missing ranks are named
LIMIT = 1800.0                           # seconds of waiting after which the job ends, unless HYBRID_COLLECTIVE_TIMEOUT
LEAVING = "the end of the program"
_INSTALL = ("pip install mpi4py, which needs an MPI library: pip install mpich, or a system's package such "
            "as openmpi-bin; then start the program with mpirun -n 2 python train.py, or python -m hybrid.launch")


class CollectiveMismatch(HybridError):
    """Ranks make different collective calls."""


class RankLost(HybridError):
    """Another rank has ended, or does not come to a call within the time limit."""


@functools.lru_cache(maxsize=4096)
def _digest(what: str) -> int:
    return int.from_bytes(hashlib.blake2b(what.encode(), digest_size=8).digest(), "little")


def _alive(pid: int) -> bool:
    """Whether a process of this machine runs: a zombie, whose parent has not asked for its status, does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] in "ZX")
    except (ProcessLookupError, FileNotFoundError):
        return False
    except PermissionError:
        return True


class World:
    """The ranks of the job, and what they do together.

    deterministic: sums are taken in the order of the ranks, whatever the MPI library would do, so that they are the
    same bit for bit in every run and on every rank.
    comm: MPI's communicator of the ranks; all that mpirun has started where it is None. numbers: their numbers in
    messages to users.
    """

    def __init__(self, mpi: Any, deterministic: bool = False, comm: Any = None, numbers: Sequence[int] | None = None):
        self.mpi, self._in_order = mpi, deterministic
        comm = mpi.COMM_WORLD if comm is None else comm
        self.comm, self._control = comm.Dup(), comm.Dup()
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        self.numbers = list(range(self.size) if numbers is None else numbers)
        local = self.comm.Split_type(mpi.COMM_TYPE_SHARED)
        self.local_rank, self.local_size = local.Get_rank(), local.Get_size()
        local.Free()
        self.host = socket.gethostname()
        self._peers: list[tuple[str, int]] = self.comm.allgather((self.host, os.getpid()))
        self._calls, self._ended, self._reports = 0, False, []  # type: tuple[int, bool, list[Any]]
        self._mine, self._all = np.zeros(2, np.uint64), np.zeros((self.size, 2), np.uint64)

    @property
    def deterministic(self) -> bool:
        """Whether sums are taken in the order of the ranks."""
        return self._in_order or config.deterministic()

    @deterministic.setter
    def deterministic(self, on: bool) -> None:
        self._in_order = on

    def overlaps(self, ctx: Context) -> bool:
        """Whether sums of arrays on a device go on while the processor computes: on a GPU, and over a network. Within
        one machine they are the processors' own work. The setting HYBRID_OVERLAP (0, 1) says otherwise."""
        asked = os.environ.get("HYBRID_OVERLAP", "")
        return asked != "0" if asked else ctx.device_type == "gpu" or self.local_size < self.size

    def subset(self, ranks: Sequence[int]) -> "World | None":
        """The World of some of the ranks; None on the others. All ranks call it, with the same ones."""
        self.agree(f"a set of the ranks {list(ranks)}")
        everybody = self.comm.Get_group()
        group = everybody.Incl(list(ranks))
        comm = self.comm.Create(group)
        for each in (group, everybody):
            each.Free()
        if comm == self.mpi.COMM_NULL:
            return None
        found = World(self.mpi, self._in_order, comm, [self.numbers[r] for r in ranks])
        comm.Free()
        return found

    def free(self) -> None:
        """Give MPI's communicators back; all ranks do."""
        self._ended = True
        for comm in (self.comm, self._control):
            comm.Free()

    # ---- calls
    def agree(self, what: str) -> None:
        """Wait until all ranks are here. CollectiveMismatch if they are about to do different things."""
        if self.size == 1:
            return
        if self._ended:
            raise RankLost(f"{what}: the ranks have parted (hybrid.distributed.shutdown)")
        self._calls += 1
        self._mine[:] = _digest(what), self.deterministic
        self.wait([self.comm.Iallgather(self._mine, self._all)], what, patient=True)
        if (self._all != self._all[0]).any():
            raise self._mismatch(what)

    def _mismatch(self, what: str) -> CollectiveMismatch:
        texts = self.exchange(f"{what}{' (deterministic)' if self.deterministic else ''}", what)
        by_text: dict[str, list[str]] = {}
        for rank, text in enumerate(texts):
            by_text.setdefault(text, []).append(self._names([rank]))
        told = "; ".join(f"rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)}: {text}"
                         for text, ranks in by_text.items())
        return CollectiveMismatch(f"the ranks of this job do different things at the same time ({told}). All ranks "
                                  f"must make the same collective calls, of equal shapes and dtypes, in the same order")

    def wait(self, requests: Sequence[Any], what: str, patient: bool = False) -> None:
        """Wait for MPI's requests. patient: the other ranks may be late; the processor is left to them."""
        test, requests = self.mpi.Request.Testall, list(requests)
        self.wait_until(lambda: test(requests), what, patient)

    def wait_until(self, done: Callable[[], bool], what: str, patient: bool = False) -> None:
        """Wait until something is done, which the other ranks have a part in. RankLost if one of them ends meanwhile,
        or when the time limit is over."""
        spins, begin, looked = 0, 0.0, 0.0
        while not done():
            spins += 1
            if spins < SPINS:
                continue
            now = time.monotonic()
            begin = begin or now
            looked = looked or now
            if now - looked > LOOK_EVERY:
                self._look(what, now - begin)
                looked = now
            time.sleep(0 if not patient or now - begin < 0.01 else 0.0005)

    # ---- the other ranks
    def _look(self, what: str, waited: float) -> None:
        """Whether the others still run; after a while, which of them are missing."""
        for rank, (host, pid) in enumerate(self._peers):
            if host == self.host and rank != self.rank and not _alive(pid):
                raise RankLost(f"rank {self._names([rank])} (process {pid} on {host}) has ended without a word; rank "
                               f"{self._names([self.rank])} waits for it in {what}")
        limit = float(os.environ.get("HYBRID_COLLECTIVE_TIMEOUT", LIMIT))
        if waited > min(STRAGGLER_AFTER, limit / 2):
            missing, own = self._missing(), self._names([self.rank])
            if waited > limit:
                raise RankLost(f"rank {own} has waited {waited:.0f} s in {what} for rank {self._names(missing)}; the "
                               f"limit is {limit:g} s (HYBRID_COLLECTIVE_TIMEOUT)")
            if missing and self._reported != self._calls:
                self._reported = self._calls
                warn_user(f"rank {own} has waited {waited:.0f} s in {what}; no word from rank {self._names(missing)}",
                          RuntimeWarning)

    def _names(self, ranks: Sequence[int]) -> str:
        """Ranks by their numbers in the job."""
        return ", ".join(str(self.numbers[r]) for r in ranks)

    _reported = -1
    _told = -1

    def _missing(self) -> list[int]:
        """Ranks that are not in the call in which this one waits: those that wait say so to all others."""
        if self._told != self._calls:
            self._told = self._calls
            self._heard: dict[int, int] = getattr(self, "_heard", {})
            number = np.array([self._calls], np.int64)
            self._reports = [(number, self._control.Isend(number, r)) for r in range(self.size) if r != self.rank]
        status = self.mpi.Status()
        while self._control.Iprobe(self.mpi.ANY_SOURCE, self.mpi.ANY_TAG, status):
            number = np.zeros(1, np.int64)
            self._control.Recv(number, status.Get_source())
            self._heard[status.Get_source()] = int(number[0])
        return [r for r in range(self.size) if r != self.rank and self._heard.get(r, -1) < self._calls]

    # ---- objects
    def barrier(self, what: str = "barrier") -> None:
        """Wait until all ranks are here."""
        self.agree(what)

    def gather_objects(self, value: Any, what: str) -> list[Any]:
        """The objects of all ranks, by rank (pickled)."""
        self.agree(what)
        return self.exchange(value, what)

    def exchange(self, value: Any, what: str) -> list[Any]:
        """The objects of all ranks, by rank (pickled), in the middle of a call on which they have agreed."""
        return [pickle.loads(data) for data in self._bytes_of_all(pickle.dumps(value), what)]

    def _bytes_of_all(self, mine: bytes, what: str) -> list[bytes]:
        """What each rank gives, by rank. It notices while it waits when a rank ends."""
        lengths = np.empty(self.size, np.int64)
        self.wait([self.comm.Iallgather(np.array([len(mine)], np.int64), lengths)], what)
        ends = np.cumsum(lengths)
        out = np.empty(int(ends[-1]), np.uint8)
        where = [out, lengths.tolist(), (ends - lengths).tolist(), self.mpi.BYTE]
        self.wait([self.comm.Iallgatherv(np.frombuffer(mine, np.uint8), where)], what)
        return [out[end - n:end].tobytes() for n, end in zip(lengths.tolist(), ends.tolist())]

    def broadcast_object(self, value: Any, root: int, what: str) -> Any:
        """The object of one rank (pickled)."""
        self.check_root(root)
        self.agree(f"{what} from rank {root}")
        return pickle.loads(self._bytes_of_all(pickle.dumps(value) if self.rank == root else b"", what)[root])

    def check_root(self, root: Any) -> None:
        """HybridError for the number of a rank that is not there."""
        if not isinstance(root, (int, np.integer)) or not 0 <= root < self.size:
            raise HybridError(f"root_rank must be one of 0 … {self.size - 1}, got {root!r}")

    def same(self, value: Any, what: str) -> None:
        """CollectiveMismatch unless a list of descriptions is the same on all ranks; names the first difference."""
        lists = self.gather_objects(list(value), what)
        for rank, other in enumerate(lists):
            for i in range(max(len(other), len(lists[0]))):
                a, b = (x[i] if i < len(x) else "nothing" for x in (lists[0], other))
                if a != b:
                    raise CollectiveMismatch(f"{what}: number {i} is {a} on rank {self._names([0])} and {b} on rank "
                                             f"{self._names([rank])}. All ranks must have the same parameters, in the "
                                             f"same order")

    # ---- the end
    def abort(self, kind: Any, value: Any, tb: Any) -> None:
        """Print an error with its rank, and end all ranks."""
        text = "".join(traceback.format_exception(kind, value, tb))
        sys.stdout.flush()
        sys.stderr.write(f"---- rank {self.rank} of {self.size} on {self.host} has failed, which ends all ranks ----\n"
                         + "".join(f"[rank {self.rank}] {line}\n" for line in text.splitlines()))
        sys.stderr.flush()
        time.sleep(0.2)                                     # another rank that fails too may print its error
        self.comm.Abort(130 if issubclass(kind, KeyboardInterrupt) else 1)

    def part(self) -> None:
        """Leave the job: waits for the others, which must be at their ends too."""
        if self._ended or self.size == 1:
            return
        try:
            self.agree(LEAVING)
        except CollectiveMismatch as err:
            time.sleep(2)                                   # the others fail with the same error, and their traceback
            self.abort(type(err), err, None)
        except RankLost as err:
            self.abort(type(err), err, None)
        self._ended = True


_WORLD: list[World] = []


def current() -> World | None:
    """The job that ``start`` has joined, or None."""
    return _WORLD[0] if _WORLD else None


def start(deterministic: bool | None = None, comm: Any = None) -> World:
    """Join the job that mpirun has started (of one rank where it has not). HybridError without mpi4py.

    deterministic: see ``World``; by default as the environment variable HYBRID_DETERMINISTIC_SUMS says.
    comm: a communicator of mpi4py, or a list of ranks, which are the job then; all ranks by default.
    """
    if _WORLD:
        if deterministic is not None:
            _WORLD[0].deterministic = bool(deterministic)
        return _WORLD[0]
    _keep_to_itself()
    try:
        from mpi4py import MPI  # noqa: PLC0415  only where several processes are asked for
    except (ImportError, RuntimeError, OSError) as err:
        raise HybridError(f"training over several processes needs mpi4py and MPI, which do not load ({err}): "
                          f"{_INSTALL}") from None
    if deterministic is None:
        deterministic = os.environ.get("HYBRID_DETERMINISTIC_SUMS", "0") not in ("", "0")
    if isinstance(comm, (list, tuple)):
        comm = MPI.COMM_WORLD.Create_group(MPI.COMM_WORLD.Get_group().Incl(list(comm))) if comm else None
    world = World(MPI, bool(deterministic), comm)
    _WORLD.append(world)
    if world.size > 1:
        _end_together(world)
    elif MPI.COMM_WORLD.Get_size() == 1 and (launched := _started_apart()) is not None:
        _WORLD.clear()
        raise HybridError(f"this is one of several processes ({launched}), but mpi4py's MPI sees one: the mpirun that "
                          f"started it belongs to another MPI library than the one mpi4py loads "
                          f"({MPI.Get_library_version().splitlines()[0]})")
    return world


def _keep_to_itself() -> None:
    """Leave the connection to the launcher to this process alone. The launcher takes a rank for dead when it closes: it
    must not stay open in programs that the rank has started (compilers, a DataLoader's processes), which may live on.
    """
    number = os.environ.get("PMI_FD", "")
    if not number.isdigit():
        return
    connection = int(number)
    with contextlib.suppress(OSError):                       # it is closed already, or none of this process
        os.set_inheritable(connection, False)
        if connection not in _CONNECTIONS:
            _CONNECTIONS.append(connection)
            forking.in_child(lambda: system.close_for_good(connection))


_CONNECTIONS: list[int] = []


def _started_apart() -> str | None:
    """The variable by which a launcher says that there are several ranks, if one does."""
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"):
        if os.environ.get(name, "1") not in ("", "1"):
            return f"{name}={os.environ[name]}"
    return None


def _end_together(world: World) -> None:
    """An error that nobody catches ends all ranks; so does the end of one rank while others wait for it."""
    def failed(kind: Any, value: Any, tb: Any) -> None:
        if current() is world and not world._ended:
            world.abort(kind, value, tb)
        else:
            sys.__excepthook__(kind, value, tb)

    sys.excepthook = failed
    atexit.register(world.part)


def shutdown() -> None:
    """Leave the job; ``start`` joins it again."""
    if _WORLD:
        world = _WORLD.pop()
        world.part()
        atexit.unregister(world.part)
