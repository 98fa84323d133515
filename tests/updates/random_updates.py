"""Cuts random streams by random updates: ``python tests/updates/random_updates.py --help``."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "kills"))
sys.path.insert(0, str(Path(__file__).parents[1] / "differential"))
sys.path.insert(0, str(Path(__file__).parents[1] / "streams_and_batches"))
sys.path.insert(0, str(Path(__file__).parent))

from campaigns import begin_process
from crash_points import Points, with_points
from generator import random_spec
from refused_operations import refusal_of
from spec import Spec
from updated_randomly import Kills, Run, UpdateTally, compare_with_updates

ENVIRONMENTS = ("embedded", "LOOPBACK")
TESTS = Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if nothing differs."""
    options = _parse_options(arguments)
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    print(f"seed {seed}: `--seed {seed}` runs the same streams again", flush=True)
    begin_process()
    modules = [TESTS / name for name in ("streams_and_batches", "differential", "updates")]
    path = filter(None, (*map(str, modules), os.environ.get("PYTHONPATH")))
    os.environ |= {"PYTHONPATH": os.pathsep.join(path), "PIP_NO_INDEX": "1"}
    with (
        tempfile.TemporaryDirectory(prefix="t") as folder,
        tempfile.TemporaryDirectory() as state,
        tempfile.TemporaryDirectory() as commands,
    ):
        flags = ("--without-spark", "--keep-failed-streams=1h")
        points = Points(Path(commands))
        with with_points(Path(folder), Path(state), points, *flags) as running:
            kills = Kills(running, points) if options.kills else None
            tally = _run(options, seed, running.address, kills)
    return _print_results(tally)


def _run(options: argparse.Namespace, seed: int, address: str, kills: Kills | None) -> UpdateTally:
    deadline = time.monotonic() + 60 * options.minutes
    tally = UpdateTally()
    # The program of a LOOPBACK job must survive, and so must other streams.
    environments = ENVIRONMENTS[:1] if kills else options.environment or ENVIRONMENTS
    jobs = 1 if kills else options.jobs

    def run(number: int) -> UpdateTally:
        if time.monotonic() > deadline:
            return UpdateTally()
        name = f"{seed}/{number}"
        with tempfile.TemporaryDirectory(prefix="u") as folder:
            environment = environments[number % len(environments)]
            one = Run(address, environment, name, Path(folder), kills)
            return compare_with_updates(one, make_specs(name, options.batch))

    with ThreadPoolExecutor(jobs) as threads:
        for found in threads.map(run, options.only or range(options.streams)):
            tally.add(found)
            print(*found.differences, sep="\n", end="\n" * bool(found.differences), flush=True)
    return tally


def make_specs(seed: str, count: int) -> dict[str, Spec]:
    """Returns random pipelines by name, without those that the server must refuse."""
    found: dict[str, Spec] = {}
    number = 0
    while len(found) < count:
        spec = random_spec(f"{seed}/{number}")
        number += 1
        if refusal_of(spec) is None:
            found[f"p{len(found)}"] = spec
    return found


def _print_results(tally: UpdateTally) -> int:
    for environment, count in tally.same.items():
        print(f"{environment}: {count} pipelines have the outputs of the model")
    for number, count in sorted(tally.updates.items()):
        print(f"{count} pipelines with {number} updates")
    for kind, count in sorted(tally.kinds.items()):
        print(f"{kind}: {count} updates of a pipeline")
    print(f"{tally.rows} rows compared; {len(tally.differences)} differences", flush=True)
    return 1 if tally.differences or not tally.rows else 0


def _parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--seed", type=int, help="seed of the streams (default: another one each time)")
    add("--streams", type=int, default=10_000, help="number of streams (jobs)")
    add("--batch", type=int, default=6, help="number of pipelines in one stream")
    add("--minutes", type=float, default=10.0, help="time after which no stream starts")
    add("--only", type=int, action="append", help="run only this stream of the seed")
    add("--environment", action="append", choices=ENVIRONMENTS, help="default: all, in turns")
    add("--jobs", type=int, default=2, help="number of streams side by side")
    add("--kills", action="store_true", help="kill the server at a random point of each update")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
