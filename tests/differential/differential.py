"""Runs random pipelines here and on the oracle: ``python tests/differential/differential.py --help``."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import multiprocessing
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TypeAlias

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parent))

import build
from comparison import Tally, compare, compare_stream
from harness_commands import boot_command
from haste import make_haste
from job_server import job_server
from runners import Oracle, Server
from spec import Spec, from_text
from streams import StreamSpec, random_stream

HERE = Path(__file__).parent
ENVIRONMENTS = ("embedded", "LOOPBACK", "PROCESS")
_BATCH_SECONDS = 1800
_BATCHES_PER_PROCESS = 25
_TOLD_EVERY = 10
_READERS = 10
_Task: TypeAlias = tuple[dict[str, Spec] | tuple[str, StreamSpec], dict[str, Server], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if nothing differs."""
    options = _options(arguments)
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    print(f"seed {seed}: `--seed {seed}` runs the same again", flush=True)
    with tempfile.TemporaryDirectory(prefix="t") as folder, tempfile.TemporaryDirectory() as boot:
        environment = {"PYTHONPATH": str(HERE), "PIP_NO_INDEX": "1"}
        with job_server(Path(folder), environment=environment) as server:
            flags = _flags(Path(boot))
            chosen = {name: flags[name] for name in options.environment or ENVIRONMENTS}
            return _run(options, seed, server.address, chosen)


def _run(
    options: argparse.Namespace, seed: int, address: str, environments: Mapping[str, Sequence[str]]
) -> int:
    """Runs all pipelines in each kind of environment; returns 1 if anything differs."""
    tally = Tally()
    runners = {name: Server(address, flags) for name, flags in environments.items()}
    tasks: list[_Task] = [(batch, runners, options.tries) for batch in _batches(options, seed)]
    tasks += [(stream, runners, options.tries) for stream in _streams(options, seed)]
    with ProcessPoolExecutor(
        options.jobs,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        max_tasks_per_child=_BATCHES_PER_PROCESS,
    ) as pool:
        running = [pool.submit(_compared, task) for task in tasks]
        for number, future in enumerate(as_completed(running), 1):
            done = future.result()
            tally.add(done)
            if number % _TOLD_EVERY == 0:
                print(f"{number} of {len(tasks)} jobs", flush=True)
            for text in (*done.differences, *(f"refused by the oracle: {r}" for r in done.refused)):
                print(text, flush=True)
    for name in environments:
        print(f"{name}: {tally.same[name]} pipelines and streams are the same", flush=True)
    print(
        f"{tally.rows} elements compared; {len(tally.differences)} differences; "
        f"{len(tally.refused)} pipelines that the oracle refuses",
        flush=True,
    )
    return 1 if tally.differences or not tally.rows else 0


def _begin() -> None:
    """In each process that compares."""
    logging.disable(logging.CRITICAL)
    make_haste()


def _batches(options: argparse.Namespace, seed: int) -> Iterator[dict[str, Spec]]:
    if options.spec:
        yield {"p": from_text(options.spec.read_text(encoding="utf-8"))}
        return
    numbers = options.only or range(options.pipelines)
    size = 1 if options.only else options.batch
    for start in range(0, len(numbers), size):
        chosen = numbers[start : start + size]
        yield {f"p{number}": build.random_spec(f"{seed}/{number}") for number in chosen}


def _streams(options: argparse.Namespace, seed: int) -> Iterator[tuple[str, StreamSpec]]:
    """Scripts, each with several readers, which count as so many streams."""
    if not options.spec and not options.only:
        for start in range(0, options.streams, _READERS):
            many = min(_READERS, options.streams - start)
            yield f"s{start}", random_stream(f"{seed}/{start}", many)


def _compared(task: _Task) -> Tally:
    what, runners, tries = task
    # Beam's runner cannot be told to stop: a batch that hangs ends with a traceback of all threads.
    faulthandler.dump_traceback_later(_BATCH_SECONDS, exit=True)
    try:
        if isinstance(what, tuple):
            return compare_stream(*what, runners)
        return compare(what, Oracle(), runners, tries)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _flags(folder: Path) -> dict[str, list[str]]:
    command = boot_command(folder)
    return {
        "embedded": [],
        "LOOPBACK": ["--environment_type=LOOPBACK"],
        "PROCESS": [
            "--environment_type=PROCESS",
            f"--environment_options=process_command={command}",
        ],
    }


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--pipelines", type=int, default=2000, help="how many, in each kind of environment")
    add("--streams", type=int, default=400, help="how many TestStreams, likewise")
    add("--seed", type=int, help="what makes them (default: another one each time)")
    add("--environment", action="append", choices=ENVIRONMENTS, help="default: all")
    add("--only", type=int, action="append", help="run that pipeline of the seed alone")
    add("--spec", type=Path, help="run the pipeline whose expression is in that file")
    add("--batch", type=int, default=25, help="how many pipelines are run in one job")
    add(
        "--tries",
        type=int,
        default=60,
        help="how often what differs is run again to make it smaller",
    )
    add("--jobs", type=int, default=os.cpu_count(), help="how many jobs are run side by side")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
