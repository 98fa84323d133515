"""Compares random streams with batches of the same elements: ``python tests/streams_and_batches/streams_and_batches.py --help``."""

from __future__ import annotations

import argparse
import os
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "kills"))
sys.path.insert(0, str(Path(__file__).parents[1] / "differential"))
sys.path.insert(0, str(Path(__file__).parent))

from campaigns import add_common_options, begin_process, end_if_stuck, make_batches
from chaos import strike
from comparing import compare
from generator import random_spec
from judging import Tally
from lives import Lives, lives
from mortal import At, Died, Mortals
from runners import Server
from spec import Spec
from stream_jobs import Way, closed

HERE = Path(__file__).parent
ENVIRONMENTS = {"embedded": [], "LOOPBACK": ["--environment_type=LOOPBACK"]}
_LOOK_SECONDS = 2.0
_TOLD_EVERY = 10
_MOST_REFUSED = 0.02
"""The greatest part of refused pipelines, compared with outputs."""
_PAUSES = (0.5, 4.0)
"""The least and the greatest pause (s) between kills."""
_Specs = dict[str, Spec]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if nothing differs."""
    options = _options(arguments)
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    print(f"seed {seed}: `--seed {seed}` runs the same pipelines again", flush=True)
    with tempfile.TemporaryDirectory(prefix="t") as folder, tempfile.TemporaryDirectory() as state:
        plain = ["--without-spark"] if options.without_spark else []
        modules = (str(HERE), str(HERE.parent / "differential"), os.environ.get("PYTHONPATH", ""))
        path = os.pathsep.join(filter(None, modules))
        environment = {"PYTHONPATH": path, "PIP_NO_INDEX": "1"}
        flags = (f"--bulk={options.bulk}", *plain)
        with lives(Path(folder), Path(state), *flags, environment=environment) as running:
            gate = Path(state, "gate") if options.kills else None
            ways = _ways(options, running.address, gate)
            tally = _run(options, seed, ways, running)
            if options.kills:
                print(f"killed: {dict(running.kills)}", flush=True)
            if options.bulk == "always":
                count = sum("section of " in line for line in running.server.log)
                print(f"{count} lines of the server's log tell of sections", flush=True)
    return _tell(tally)


def _ways(options: argparse.Namespace, address: str, gate: Path | None) -> dict[str, Way]:
    """Returns the ways to run each pipeline, by the name of the environment and other differences."""
    flags = options.option and tuple(options.option)
    ways = {}
    for name in options.environment or ENVIRONMENTS:
        server = Server(address, ENVIRONMENTS[name])
        ways[name] = Way(server, options.drains, flags, gate=gate)
        if options.batches:
            ways[f"{name} as a batch"] = Way(server, 0.0, flags, as_batch=True, gate=gate)
    return ways


def _run(options: argparse.Namespace, seed: int, ways: Mapping[str, Way], running: Lives) -> Tally:
    tally, deadline = Tally(), time.monotonic() + 60 * options.minutes
    strikes = _Strikes(options, seed, ways, running)
    batches = make_batches(options, seed, options.streams, random_spec)
    with Mortals(begin_process) as mortals, ThreadPoolExecutor(options.jobs) as threads:
        jobs: dict[Future[Tally | Died], _Specs] = {
            threads.submit(
                mortals.call, _compared, specs, ways, f"{seed}/{number}", options.tries
            ): specs
            for number, specs in enumerate(batches)
        }
        total = len(jobs)
        while jobs:
            done, _ = wait(jobs, _LOOK_SECONDS, FIRST_COMPLETED)
            strikes.next()
            if time.monotonic() > deadline or len(tally.differences) >= options.differences:
                jobs = {job: specs for job, specs in jobs.items() if not job.cancel()}
            for job in done & jobs.keys():
                specs, found = jobs.pop(job), job.result()
                if isinstance(found, Died):
                    text = f"the process ended at {found.at}, which ran {', '.join(specs)}"
                    found = Tally(differences=[text])
                tally.add(found)
                print(*found.differences, sep="\n", end="\n" * bool(found.differences), flush=True)
                if (total - len(jobs)) % _TOLD_EVERY == 0:
                    print(f"{total - len(jobs)} of {total} jobs", flush=True)
    return tally


class _Strikes:
    """Kills of workers and servers at random times, if they are wanted."""

    def __init__(
        self, options: argparse.Namespace, seed: int, ways: Mapping[str, Way], running: Lives
    ) -> None:
        self._gate = next(iter(ways.values())).gate
        self._random = random.Random(seed)
        self._running = running
        self._kinds = ["worker", "worker", "server"]
        if not options.without_spark:
            self._kinds.append("java")
        self._next = time.monotonic() + self._random.uniform(*_PAUSES)

    def next(self) -> None:
        """Kills a process if it is time."""
        if self._gate is None or time.monotonic() < self._next:
            return
        with closed(self._gate, exclusive=True):
            strike(self._running, self._random.choice(self._kinds), self._random.randrange(100))
        self._next = time.monotonic() + self._random.uniform(*_PAUSES)


def _tell(tally: Tally) -> int:
    """Prints the results; returns 0 if nothing differs."""
    for text in tally.refused:
        print(f"refused by FnApiRunner: {text}", flush=True)
    for name, count in tally.same.items():
        print(f"{name}: {count} pipelines are the same", flush=True)
    judged = ", ".join(f"{count} by {judge}" for judge, count in tally.branches.items())
    print(
        f"{tally.rows} rows compared; outputs judged: {judged}; {tally.drained} pipelines were "
        f"drained before their end; FnApiRunner refused {len(tally.refused)} pipelines",
        flush=True,
    )
    print(f"{len(tally.differences)} differences", flush=True)
    too_many = len(tally.refused) > 1 + _MOST_REFUSED * tally.branches.total()
    return 1 if tally.differences or too_many or not tally.rows else 0


def _compared(at: At, specs: _Specs, ways: Mapping[str, Way], seed: str, tries: int) -> Tally:
    with end_if_stuck():
        return compare(at, specs, ways, seed, tries)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--streams", type=int, default=1000, help="number of pipelines in each environment")
    add_common_options(parser, ENVIRONMENTS, batch=10, tries=40)
    part = "drain each job, or this part of the jobs, at a random time"
    add("--batches", action="store_true", help="run each pipeline as a batch on the server, too")
    add("--drains", type=float, nargs="?", default=0.0, const=1.0, metavar="PART", help=part)
    add("--kills", action="store_true", help="kill workers and servers at random times")
    add(
        "--option",
        action="append",
        help="pipeline option in place of random ones: --option=--streaming",
    )
    add("--differences", type=int, default=20, help="number after which no more jobs start")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
