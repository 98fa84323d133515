"""Makes services of servers unavailable while jobs run: ``python tests/outages/outages.py --help``.

Each site is a server with its services, in a separate process. All sites run in parallel. An outage
makes one service of one site unavailable, while several jobs run on the site.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import random
import secrets
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "kills"))
sys.path.insert(0, str(Path(__file__).parent))

import attrs
import sites
from jobs import Pipelines
from neighbours import Neighbour
from runs import Plan, Run
from table import Row, is_right, page, summary

ENVIRONMENTS = {"embedded": [], "LOOPBACK": ["--environment_type=LOOPBACK"]}
_PATIENCE_SECONDS = 150.0
_LONGEST_PAUSE = 130.0
"""Maximum pause of a bundle whose user code raises, seconds; pauses grow to 2 min."""
_BEFORE_SECONDS = 3.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if each job went on, and each result is exact."""
    options = _options(arguments)
    if options.seed is None:
        options.seed = secrets.randbelow(2**32)
    if options.one_site:
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")
        return _run_site(options)
    print(f"seed {options.seed}: `--seed {options.seed}` runs the same outages again", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lines = options.out.with_suffix(".jsonl")
    if not options.append:
        lines.unlink(missing_ok=True)
    with TemporaryDirectory(prefix="t") as folder:
        names = sites.existing(tuple(options.site or sites.NAMES), Path(folder))
    with ThreadPoolExecutor(options.at_once) as threads:
        codes = {name: threads.submit(_follow, name, options, lines) for name in names}
    broken = [name for name, code in codes.items() if code.result()]
    rows = [Row.of(line) for line in lines.read_text().splitlines()] if lines.exists() else []
    options.out.write_text(page(rows), encoding="utf-8")
    missing = set(options.site or sites.NAMES) - set(names)
    print(*(f"{name}: can't be made here" for name in sorted(missing)), sep="\n", end="")
    print(*(f"{name}: the site broke off, see above" for name in broken), sep="\n", end="")
    print(summary(rows))
    return 1 if broken or not rows or not all(map(is_right, rows)) else 0


def _follow(name: str, options: argparse.Namespace, lines: Path) -> int:
    """Runs a site in a separate process, collects its rows, and prints them; returns its exit code."""
    passed = [f"--{one}={getattr(options, one)}" for one in ("seed", "rounds", "first", "seconds")]
    passed += [f"--outage-limit={options.outage_limit}"]
    passed += [f"--lengths={','.join(map(str, options.lengths))}"]
    passed += [f"--kind={kind}" for kind in options.kind or ()]
    passed += [f"--neighbour={one}" for one in options.neighbour or ()]
    passed += ["--spark"] * options.spark
    command = [sys.executable, "-P", __file__, f"--one-site={name}", *passed]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                with lines.open("a") as file:
                    file.write(line)
            print(Row.of(line) if line.startswith("{") else line.rstrip(), flush=True)
    return process.returncode


def _run_site(options: argparse.Namespace) -> int:
    """Runs the outages of one site, and prints a line of JSON for each job."""
    name, deadline = options.one_site, time.monotonic() + options.seconds
    placement = () if not options.spark else ("--spark-master-url=local[4,4]",)
    with sites.scene(name, placement, options.outage_limit) as scene:
        chosen = _chosen(options, scene)
        for number in range(options.first, options.first + options.rounds):
            if time.monotonic() > deadline:
                break
            rng = random.Random(f"{options.seed}/{name}/{number}")
            target, kind = chosen[number % len(chosen)]
            seconds = rng.choice(options.lengths)
            for row in _outage(options, scene, target, kind, seconds, number, rng):
                print(json.dumps(attrs.asdict(row)), flush=True)
        scene.server.check_attempts()
    return 0


def _chosen(options: argparse.Namespace, scene: sites.Scene) -> list[tuple[sites.Target, str]]:
    """Returns the neighbours and kinds in the order in which outages go through them."""
    chosen = [
        (target, kind)
        for target in scene.targets
        for kind in target.neighbour.kinds
        if (not options.kind or kind in options.kind)
        and (not options.neighbour or target.neighbour.name in options.neighbour)
    ]
    random.Random(f"{options.seed}/{options.one_site}").shuffle(chosen)
    return chosen


def _outage(
    options: argparse.Namespace,
    scene: sites.Scene,
    target: sites.Target,
    kind: str,
    seconds: float,
    number: int,
    rng: random.Random,
) -> Iterator[Row]:
    """Makes a service unavailable once; yields the outcome of each job."""
    neighbour = target.neighbour
    patience = _PATIENCE_SECONDS + min(seconds, _LONGEST_PAUSE) * neighbour.is_counted
    runs = [
        _run(scene, plan, f"o{options.seed}-{number}-{index}", patience)
        for index, plan in enumerate(target.plans(rng))
    ]
    early = [run for run in runs if run.plan.phase in ("midst", "end")]
    for run in early:
        run.begin()
    for run in early:
        run.wait_for_results()
    time.sleep(rng.uniform(0.0, _BEFORE_SECONDS))
    for run in runs:
        if run.plan.phase == "begin":
            run.begin()
    time.sleep(rng.uniform(0.0, _BEFORE_SECONDS))
    neighbour.leave(kind)
    _live_through(runs, seconds, answers=neighbour.answers)
    neighbour.come_back()
    for run in runs:
        run.came_back()
    finishing = [threading.Thread(target=run.finish) for run in runs]
    for thread in finishing:
        thread.start()
    for thread in finishing:
        thread.join()
    for run in runs:
        yield _row(options, neighbour, kind, seconds, number, run)


def _live_through(runs: list[Run], seconds: float, *, answers: bool) -> None:
    """Waits for the duration of an outage; reads the jobs' reports if the server responds."""
    began = time.monotonic()
    for run in runs:
        if run.plan.phase == "submit":
            run.begin()
    time.sleep(seconds / 2)
    for run in runs:
        if run.plan.phase == "end":
            run.end_stream()
    time.sleep(max(0.0, began + 0.9 * seconds - time.monotonic()))
    if answers:
        with ThreadPoolExecutor(len(runs)) as threads:
            list(threads.map(lambda run: run.look(), runs))
    time.sleep(max(0.0, began + seconds - time.monotonic()))


def _run(scene: sites.Scene, plan: Plan, name: str, patience: float) -> Run:
    pipelines = Pipelines(scene.server.address, plan.environment, ENVIRONMENTS[plan.environment])
    return Run(plan, pipelines, name, scene.folder, scene.site, patience)


def _row(
    options: argparse.Namespace,
    neighbour: Neighbour,
    kind: str,
    seconds: float,
    number: int,
    run: Run,
) -> Row:
    on = "Spark" if options.spark else "plain processes"
    counts_absence = run.result.attempts_failed > 0 and not neighbour.is_counted
    return Row(
        seed=options.seed,
        site=options.one_site,
        number=number,
        on=on,
        neighbour=neighbour.name,
        kind=kind,
        seconds=seconds,
        counts_absence=counts_absence and not run.plan.is_bounded,
        is_told=bool(neighbour.told_by) and neighbour.told_by in run.result.told,
        names_neighbour=bool(neighbour.told_by) and neighbour.told_by in run.result.detail,
        result=attrs.asdict(run.result),
    )


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--rounds", type=int, default=4, help="number of outages at each site")
    add("--first", type=int, default=0, help="number of the first outage at each site")
    add("--seed", type=int, help="seed of the outages (default: another one each time)")
    add("--seconds", type=float, default=math.inf, help="time after which no outage begins")
    add(
        "--lengths",
        type=_lengths,
        default=[1.0, 5.0, 30.0],
        help="seconds that outages last: 1,5,30",
    )
    add("--at-once", type=int, default=3, help="number of sites that run side by side")
    add("--site", action="append", choices=sites.NAMES, help="default: all")
    add("--kind", action="append", help="only outages of this kind")
    add("--neighbour", action="append", help="only outages of this neighbour")
    add("--outage-limit", default="10m", help="flag of the servers")
    add("--spark", action="store_true", help="run on Spark; default: on plain processes")
    add("--append", action="store_true", help="add to the existing rows")
    add("--out", type=Path, default=Path(".nox/outages.md"), help="page of the table")
    add("--one-site", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _lengths(text: str) -> list[float]:
    return [float(one) for one in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
