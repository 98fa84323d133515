"""This runner with and without its web pages: the cost of the pages without and with a viewer."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from free_ports import find_free_ports
from processes import cpu_seconds
from targets import Outcome, Target, portable, server_process

WITHOUT = "without pages"
VIEWED = "a viewer"
WORKLOADS = ("wordcount", "gbk", "stateful", "side_dict", "periodic")
"""Workloads with a duration of seconds, batch and streaming. The pages of shorter jobs have no viewers."""
_PAUSE_SECONDS = 0.5
_LIMIT_SECONDS = 30.0


class Viewer:
    """Viewer that opens the page of each running job, and follows its stream as the page's script does."""

    def __init__(self, pages: str) -> None:
        self._pages = pages
        self._over = threading.Event()
        self.looks = threading.Event()
        """Set while a job runs, because the viewer's search for jobs would slow down other targets."""
        self.events = 0
        """Number of updates of viewed pages."""
        self._thread = threading.Thread(target=self._look, name="viewer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Looks no more."""
        self._over.set()
        self.looks.set()
        self._thread.join(_LIMIT_SECONDS)

    def _look(self) -> None:
        while not self._over.wait(_PAUSE_SECONDS):
            self.looks.wait()
            try:
                jobs = json.loads(self._read("/api/v1/jobs"))["jobs"]
                running = [job["id"] for job in jobs if job["state"] == "RUNNING"]
                if running:
                    self._follow(running[-1])
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                # The next poll finds a running server.
                continue

    def _follow(self, job: str) -> None:
        self._read(f"/jobs/{job}")
        with self._open(f"/jobs/{job}/events?page=") as stream:
            for line in stream:
                self.events += line.startswith(b"event: parts")
                if line.startswith((b"event: end", b"event: gone")) or self._over.is_set():
                    return

    def _read(self, path: str) -> bytes:
        with self._open(path) as answer:
            found: bytes = answer.read()
            return found

    def _open(self, path: str) -> Any:
        return urllib.request.urlopen(f"{self._pages}{path}", timeout=_LIMIT_SECONDS)


class Viewed(Target):
    """Target whose jobs have a viewer."""

    def __init__(self, viewer: Viewer, title: str, flags: tuple[str, ...], folder: Path) -> None:
        super().__init__(title, flags, folder)
        self._viewer = viewer

    def run(self, name: str, elements: int, seconds: float) -> Outcome:
        """Runs a workload; raises as `Target.run` does."""
        self._viewer.looks.set()
        try:
            return super().run(name, elements, seconds)
        finally:
            self._viewer.looks.clear()


@contextmanager
def targets_of_pages(environment: str, flags: tuple[str, ...]) -> Iterator[list[Target]]:
    """Starts three equal servers: without pages, with pages, and with pages and a viewer of each job.

    At the end, the function prints the CPU time of each server and its workers.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench")))
        ports = find_free_ports(2)
        servers = {
            title: stack.enter_context(server_process((*flags, own)))
            for title, own in (
                (WITHOUT, "--serve-http=false"),
                ("nobody looks", f"--web-port={ports[0]}"),
                (VIEWED, f"--web-port={ports[1]}"),
            )
        }
        viewer = Viewer(f"http://localhost:{ports[1]}")
        stack.callback(viewer.close)
        targets = []
        for title, server in servers.items():
            of_it = (title, portable(server.address, environment), folder)
            targets.append(Viewed(viewer, *of_it) if title == VIEWED else Target(*of_it))
            stack.callback(targets[-1].close)
        before = {title: cpu_seconds(server.processes()) for title, server in servers.items()}
        yield targets
        used = {
            title: cpu_seconds(server.processes()) - before[title]
            for title, server in servers.items()
        }
        print(f"CPU seconds of server and workers, warm-up included: {_beside(used)}")
        if not viewer.events:
            raise SystemExit("the viewer has seen no change, so the measurement is invalid")


def wall_ratios(outcomes: Iterable[Mapping[str, Sequence[Outcome]]]) -> str:
    """Returns the median ratio of a run's wall time to the run without pages in the same round, over
    all workloads.

    This median is more precise than the ratio of medians, because other load of the machine varies
    between rounds.
    """
    ratios: dict[str, list[float]] = {}
    for of_workload in outcomes:
        for title, runs in of_workload.items():
            pairs = zip(runs, of_workload[WITHOUT], strict=False)
            ratios.setdefault(title, []).extend(run.seconds / base.seconds for run, base in pairs)
    told = (
        f"{title} {statistics.median(found):.3f} (half of {len(found)} within {_middle_half(found)})"
        for title, found in ratios.items()
        if title != WITHOUT and len(found) > 1
    )
    return f"Wall seconds beside {WITHOUT} in the same round: {'; '.join(told)}"


def _middle_half(found: Sequence[float]) -> str:
    low, _, high = statistics.quantiles(found, n=4)
    return f"{low:.3f} to {high:.3f}"


def _beside(used: Mapping[str, float]) -> str:
    """Figures, each with its ratio to that without pages."""
    base = used[WITHOUT]
    return "; ".join(
        f"{title} {value:.1f}" + (f" ({value / base:.3f})" if base and title != WITHOUT else "")
        for title, value in used.items()
    )
