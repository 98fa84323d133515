"""Resource use of a server, its processes and its state folder, sampled over time; and detection of growth."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs
from job_server import list_files
from lives import Lives

_LOOK_SECONDS = 0.1
_PSS = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)


@attrs.frozen
class Sample:
    """Resource use at one time.

    Attributes:
        at: time, seconds since 1970.
        life: number of the server process, from 1.
        pids: number of processes.
        megabytes: memory by kind of process: ``server``, ``java``, ``python`` (the daemons and
            workers).
        threads: threads of all processes.
        descriptors: open descriptors of all processes.
        files: number of files in the state folder.
        file_megabytes: size of these files, megabytes.
    """

    at: float
    life: int
    pids: int
    megabytes: dict[str, float]
    threads: int
    descriptors: int
    files: int
    file_megabytes: float


def look(lives: Lives, state: Path) -> Sample:
    """Samples the resource use of the running processes."""
    kinds = dict.fromkeys(lives.server.processes(), "python")
    kinds |= {pid: kind for kind in ("server", "java") for pid in lives.victims(kind)}
    megabytes: dict[str, float] = {}
    for pid, kind in kinds.items():
        megabytes[kind] = megabytes.get(kind, 0.0) + _megabytes(pid)
    sizes = list(_sizes(state))
    return Sample(
        time.time(),
        lives.count,
        len(kinds),
        {kind: round(size, 1) for kind, size in megabytes.items()},
        sum(_count(pid, "task") for pid in kinds),
        sum(_count(pid, "fd") for pid in kinds),
        len(sizes),
        round(sum(sizes) / 2**20, 2),
    )


def line(sample: Sample) -> str:
    """Returns a sample as JSON."""
    return json.dumps(attrs.asdict(sample))


@attrs.frozen
class Arrival:
    """Arrival of a result at the end of a stream.

    Attributes:
        kind: ``number`` or ``window``.
        at: time, seconds since 1970.
        late: delay after the due time, seconds.
    """

    kind: str
    at: float
    late: float


def arrivals(file: Path) -> list[Arrival]:
    """Returns the arrivals that a stream reported."""
    found = []
    for text in file.read_text().splitlines():
        kind, at, late = text.split()
        found.append(Arrival(kind, float(at), float(late)))
    return found


@attrs.frozen
class Trend:
    """The median, or another quantile, of a figure in the first and in the last third of the time."""

    name: str
    first: float
    last: float

    def grows(self, factor: float, slack: float) -> bool:
        """Returns True if the figure grew more than noise explains."""
        return self.last > self.first * factor + slack


def trend(name: str, seen: Sequence[tuple[float, float]], part: float = 0.5) -> Trend:
    """Returns the trend of a figure that was sampled at these times, oldest first: of its median or a
    lower quantile.
    """
    begin, end = seen[0][0], seen[-1][0]
    third = (end - begin) / 3
    first = [value for at, value in seen if at <= begin + third]
    last = [value for at, value in seen if at >= end - third]
    return Trend(name, round(_quantile(first, part), 3), round(_quantile(last, part), 3))


class Spent:
    """CPU time that a server's processes use during a ``with`` block.

    Processes that exit meanwhile count, except for the last 0.1 s of each process.

    Args:
        lives: server processes.
        since_birth: whether earlier CPU time counts, too.

    Attributes:
        seconds: CPU time, seconds.
    """

    def __init__(self, lives: Lives, *, since_birth: bool = False) -> None:
        self._lives = lives
        self._since_birth = since_birth
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}

    def __enter__(self) -> Spent:
        self._look()
        self._first = {} if self._since_birth else dict(self._last)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    @property
    def seconds(self) -> float:
        return sum(self._last.values()) - sum(self._first.values())

    def _run(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        for pid in self._lives.server.processes():
            self._last[pid] = max(_cpu_seconds(pid), self._last.get(pid, 0.0))


def _quantile(values: list[float], part: float) -> float:
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


def _cpu_seconds(pid: int) -> float:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _megabytes(pid: int) -> float:
    """Returns the private memory of a process plus its share of shared memory."""
    try:
        found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_bytes())
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


def _count(pid: int, what: str) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/{what}"))
    except OSError:
        return 0


def _sizes(folder: Path) -> Iterable[int]:
    for path in list_files(folder):
        try:
            yield path.stat().st_size
        except OSError:
            continue  # it was removed in the meantime
