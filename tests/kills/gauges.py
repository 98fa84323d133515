"""What a server, its processes and its state folder use, sampled over time; and whether it grows."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

import attrs
from job_server import files_in
from lives import Lives

_PSS = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)


@attrs.frozen
class Sample:
    """One look.

    Attributes:
        at: in seconds since 1970.
        life: of the server, counted from 1.
        pids: how many processes there were.
        megabytes: of each kind of process: ``server``, ``java``, ``python`` (the daemons and workers).
        threads: of all processes.
        descriptors: open ones of all processes.
        files: in the state folder.
        file_megabytes: their size.
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
    """Samples what runs now."""
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
    """A sample as JSON."""
    return json.dumps(attrs.asdict(sample))


@attrs.frozen
class Arrival:
    """Something has come to the stream's end.

    Attributes:
        kind: ``number`` or ``window``.
        at: when, in seconds since 1970.
        late: how many seconds after it was due.
    """

    kind: str
    at: float
    late: float


def arrivals(file: Path) -> list[Arrival]:
    """What a stream has told."""
    found = []
    for text in file.read_text().splitlines():
        kind, at, late = text.split()
        found.append(Arrival(kind, float(at), float(late)))
    return found


@attrs.frozen
class Trend:
    """The median of a figure in the first and in the last third of the time."""

    name: str
    first: float
    last: float

    def grows(self, factor: float, slack: float) -> bool:
        """Whether it has become larger than noise explains."""
        return self.last > self.first * factor + slack


def trend(name: str, seen: Sequence[tuple[float, float]]) -> Trend:
    """That of a figure that was seen at these times, oldest first."""
    begin, end = seen[0][0], seen[-1][0]
    third = (end - begin) / 3
    first = [value for at, value in seen if at <= begin + third]
    last = [value for at, value in seen if at >= end - third]
    return Trend(name, round(median(first), 3), round(median(last), 3))


def _megabytes(pid: int) -> float:
    """Memory of its own, and its share of what it shares with others."""
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
    for path in files_in(folder):
        try:
            yield path.stat().st_size
        except OSError:
            continue  # it was removed in the meantime
