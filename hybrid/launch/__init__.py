"""Start a program on several processes, with the command line of MXNet's ``launch.py``:

    python -m hybrid.launch -n 2 --launcher local python train.py ARGUMENT ...

-n: how many processes. --launcher: local (this machine), or mpi and ssh with -H HOSTFILE. --env NAME:VALUE sets a
variable of theirs. There are no servers: -s is accepted and ignored. The processes are started by mpirun.
"""
from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Sequence

from ..base import system


def mpirun() -> str | None:
    """The path of mpirun (or mpiexec): beside this Python first, then on the PATH."""
    here = str(Path(sys.executable).parent)
    for place in (here, None):
        for name in ("mpirun", "mpiexec"):
            found = shutil.which(name, path=place)
            if found:
                return found
    return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hybrid.launch", description="Launch a distributed job")
    parser.add_argument("-n", "--num-workers", required=True, type=int, help="number of processes")
    parser.add_argument("-s", "--num-servers", type=int, help="accepted and ignored: there are no servers")
    parser.add_argument("-H", "--hostfile", help="the machines, for the launchers mpi and ssh")
    parser.add_argument("--launcher", default="local", choices=["local", "ssh", "mpi"])
    for name in ("--env-server", "--env-worker", "--env"):
        parser.add_argument(name, action="append", default=[], metavar="NAME:VALUE")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the program and its arguments")
    return parser


def arguments(argv: Sequence[str], starter: str, version: str) -> tuple[list[str], dict[str, str]]:
    """mpirun's command line for one of launch.py, and variables to set. version: what ``mpirun --version`` prints.

    >>> arguments(["-n", "2", "python", "a.py"], "mpirun", "HYDRA")[0]
    ['mpirun', '-n', '2', 'python', 'a.py']
    """
    parser = _parser()
    given = parser.parse_args(list(argv))
    command = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not command:
        parser.error("the command is missing: python -m hybrid.launch -n 2 python train.py")
    if given.num_workers < 1:
        parser.error(f"-n must be at least 1, got {given.num_workers}")
    if given.launcher != "local" and not given.hostfile:
        parser.error(f"--launcher {given.launcher} needs -H HOSTFILE")
    open_mpi = "Open MPI" in version or "OpenRTE" in version
    hosts = [] if given.launcher == "local" else ["--hostfile" if open_mpi else "-f", given.hostfile]
    more = ["--oversubscribe"] if open_mpi and given.launcher == "local" else []
    env = {}
    for pair in (*given.env, *given.env_worker):
        name, colon, value = pair.partition(":")
        if not colon:
            parser.error(f"--env takes NAME:VALUE, got {pair!r}")
        env[name] = value
    if given.launcher == "local" and "HYBRID_NUM_THREADS" not in os.environ:
        env.setdefault("HYBRID_NUM_THREADS", str(max(1, system.cores() // given.num_workers)))
    if open_mpi and given.launcher != "local":
        more += [x for name in env for x in ("-x", name)]
    return [starter, "-n", str(given.num_workers), *hosts, *more, *command], env


def main(argv: Sequence[str]) -> int:
    """The command line; the exit status is mpirun's."""
    if not argv or argv[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if argv else 2
    starter = mpirun()
    if starter is None:
        _parser().parse_args(list(argv))
        print("python -m hybrid.launch needs mpirun: pip install mpi4py mpich, or a system's package such as "
              "openmpi-bin", file=sys.stderr)
        return 2
    version = subprocess.run([starter, "--version"], capture_output=True, text=True, check=False).stdout
    command, env = arguments(argv, starter, version)
    try:
        return subprocess.run(command, env={**os.environ, **env}, check=False).returncode
    except KeyboardInterrupt:
        return 130
