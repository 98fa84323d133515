"""Compares random streams with batches of the same elements: ``python tests/streams_and_batches/streams_and_batches.py --help``."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import math
import os
import random
import secrets
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "kills"))
sys.path.insert(0, str(Path(__file__).parents[1] / "differential"))
sys.path.insert(0, str(Path(__file__).parent))

from chaos import strike
from comparing import compare
from generator import random_spec
from haste import make_haste
from judging import Tally
from lives import Lives, lives
from mortal import At, Died, Mortals
from runners import Server
from spec import Spec, from_text
from stream_jobs import Way, closed

HERE = Path(__file__).parent
ENVIRONMENTS = {"embedded": [], "LOOPBACK": ["--environment_type=LOOPBACK"]}
_BATCH_SECONDS = 1800
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
    with Mortals(_begin) as mortals, ThreadPoolExecutor(options.jobs) as threads:
        jobs: dict[Future[Tally | Died], _Specs] = {
            threads.submit(
                mortals.call, _compared, specs, ways, f"{seed}/{number}", options.tries
            ): specs
            for number, specs in enumerate(_batches(options, seed))
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


def _begin() -> None:
    """Prepares each process that compares."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    make_haste()


def _batches(options: argparse.Namespace, seed: int) -> Iterator[_Specs]:
    if options.spec:
        yield {"p": from_text(options.spec.read_text(encoding="utf-8"))}
        return
    numbers = options.only or range(options.streams)
    size = 1 if options.only else options.batch
    for start in range(0, len(numbers), size):
        chosen = numbers[start : start + size]
        yield {f"p{number}": random_spec(f"{seed}/{number}") for number in chosen}


def _compared(at: At, specs: _Specs, ways: Mapping[str, Way], seed: str, tries: int) -> Tally:
    # FnApiRunner has no time limit: a batch that hangs ends with a traceback of all threads.
    faulthandler.dump_traceback_later(_BATCH_SECONDS, exit=True)
    try:
        return compare(at, specs, ways, seed, tries)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--streams", type=int, default=1000, help="number of pipelines in each environment")
    add("--seed", type=int, help="seed of the pipelines (default: another one each time)")
    add("--environment", action="append", choices=ENVIRONMENTS, help="default: all")
    add("--bulk", default="auto", help="whether bounded stages are run as Spark's own jobs")
    add("--without-spark", action="store_true", help="run on plain processes of this machine")
    part = "drain each job, or this part of the jobs, at a random time"
    add("--batches", action="store_true", help="run each pipeline as a batch on the server, too")
    add("--drains", type=float, nargs="?", default=0.0, const=1.0, metavar="PART", help=part)
    add("--kills", action="store_true", help="kill workers and servers at random times")
    add("--only", type=int, action="append", help="run only this pipeline of the seed")
    add("--spec", type=Path, help="run the pipeline whose expression is in this file")
    add(
        "--option",
        action="append",
        help="pipeline option in place of random ones: --option=--streaming",
    )
    add("--batch", type=int, default=10, help="number of pipelines in one job")
    add("--tries", type=int, default=40, help="number of jobs to make a difference smaller")
    add("--differences", type=int, default=20, help="number after which no more jobs start")
    add("--minutes", type=float, default=math.inf, help="time after which no more jobs start")
    add("--jobs", type=int, default=os.cpu_count(), help="number of jobs side by side")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
