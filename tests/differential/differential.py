"""Runs random pipelines here and on the oracle: ``python tests/differential/differential.py --help``."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TypeAlias

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parent))

import build
from campaigns import add_common_options, begin_process, end_if_stuck, make_batches
from comparison import Tally, compare, compare_stream
from harness_commands import boot_command, environment_flags
from job_server import FAILING_SOON, job_server
from mortal import At, Died, Mortals
from runners import Oracle, Server, Telling
from spec import Spec
from streams import StreamSpec, random_stream

HERE = Path(__file__).parent
ENVIRONMENTS = ("embedded", "LOOPBACK", "PROCESS")
ORACLE = "the oracle"
_MOST_LEFT_OUT = 0.05
_TOLD_EVERY = 10
_READERS = 10
_LOOK_SECONDS = 5.0
_Task: TypeAlias = dict[str, Spec] | tuple[str, StreamSpec]
_Done: TypeAlias = Future[Tally | Died]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if nothing differs."""
    options = _options(arguments)
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    print(f"seed {seed}: `--seed {seed}` runs the same again", flush=True)
    with tempfile.TemporaryDirectory(prefix="t") as folder, tempfile.TemporaryDirectory() as boot:
        environment = {
            "PYTHONPATH": os.pathsep.join((str(HERE), os.environ.get("PYTHONPATH", ""))),
            "PIP_NO_INDEX": "1",
        }
        plain = ["--without-spark"] if options.without_spark else []
        flags = ("--bulk", options.bulk, FAILING_SOON, *plain)
        with job_server(Path(folder), *flags, environment=environment) as server:
            known = environment_flags(boot_command(Path(boot)))
            chosen = {name: known[name] for name in options.environment or ENVIRONMENTS}
            return _run(options, seed, server.address, chosen)


def _run(
    options: argparse.Namespace, seed: int, address: str, environments: Mapping[str, Sequence[str]]
) -> int:
    """Runs all pipelines in each kind of environment; returns 1 if anything differs."""
    tally = Tally()
    runners = {name: Server(address, flags) for name, flags in environments.items()}
    tasks: list[_Task] = [
        *make_batches(options, seed, options.pipelines, build.random_spec),
        *_streams(options, seed),
    ]
    ended, deadline = 0, time.monotonic() + 60 * options.minutes
    with Mortals(begin_process) as mortals, ThreadPoolExecutor(options.jobs) as threads:

        def begun(task: _Task) -> tuple[_Done, _Task]:
            return threads.submit(mortals.call, _compared, task, runners, options.tries), task

        running = dict(map(begun, tasks))
        while running:
            done, _ = wait(running, _LOOK_SECONDS, FIRST_COMPLETED)
            if time.monotonic() > deadline:
                running = {one: task for one, task in running.items() if not one.cancel()}
            for future in done:
                task, found = running.pop(future), future.result()
                if isinstance(found, Died):
                    running.update(map(begun, _halves(task)))
                    found = _of_the_dead(task, found)
                tally.add(found)
                found.tell()
                ended += 1
                if ended % _TOLD_EVERY == 0:
                    print(f"{ended} of {ended + len(running)} jobs", flush=True)
    for name in environments:
        print(f"{name}: {tally.same[name]} pipelines and streams are the same", flush=True)
    print(
        f"{tally.rows} elements compared; {len(tally.differences)} differences; "
        f"{len(tally.refused)} pipelines that the oracle refuses, and {len(tally.fatal)} that end it",
        flush=True,
    )
    left_out = len(tally.refused) + len(tally.fatal)
    too_many = left_out > 1 + _MOST_LEFT_OUT * options.pipelines
    return 1 if tally.differences or too_many or not tally.rows else 0


def _halves(task: _Task) -> Iterator[_Task]:
    """Returns the rest of a batch that killed its process, in halves."""
    if isinstance(task, dict) and len(task) > 1:
        names = list(task)
        for part in (names[: len(names) // 2], names[len(names) // 2 :]):
            yield {name: task[name] for name in part}


def _of_the_dead(task: _Task, died: Died) -> Tally:
    """Records the exit of a process as a difference, unless the oracle caused the exit."""
    names = ", ".join(task) if isinstance(task, dict) else task[0]
    text = f"the process ended at {died.at}, which ran {names}"
    if died.at != ORACLE:
        return Tally(differences=[text])
    if len(task) > 1:
        print(f"{text}; they are run again by halves", flush=True)
        return Tally()
    return Tally(fatal=[f"{text}\n{next(iter(task.values()))}"])


def _streams(options: argparse.Namespace, seed: int) -> Iterator[tuple[str, StreamSpec]]:
    """Compares scripts, each with several readers; each reader counts as a stream."""
    if not options.spec and not options.only:
        for start in range(0, options.streams, _READERS):
            many = min(_READERS, options.streams - start)
            yield f"s{start}", random_stream(f"{seed}/{start}", many)


def _compared(at: At, task: _Task, servers: Mapping[str, Server], tries: int) -> Tally:
    runners = {name: Telling(at, name, server) for name, server in servers.items()}
    with end_if_stuck():
        if isinstance(task, tuple):
            return compare_stream(*task, runners)
        return compare(task, Telling(at, ORACLE, Oracle()), runners, tries)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--pipelines", type=int, default=2000, help="number in each kind of environment")
    add("--streams", type=int, default=400, help="number of TestStreams, likewise")
    add_common_options(parser, ENVIRONMENTS, batch=25, tries=60)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
