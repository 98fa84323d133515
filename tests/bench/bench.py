"""Compares this runner with other runners and writes the table: ``python tests/bench/bench.py
--write``.

Each target runs each workload once to warm up. Then the targets alternate in rounds, so that other
load of the machine affects all targets equally. The table has the medians.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import sys
from importlib.metadata import version
from pathlib import Path

import attrs

sys.path.insert(0, str(Path(__file__).parent))

import row_workloads  # noqa: F401 - registers its workloads
from pages import WITHOUT, targets_of_pages, wall_ratios
from pages import WORKLOADS as OF_PAGES
from targets import Failed, Outcome, Target, all_targets
from workloads import WORKLOADS

PAGE = Path(__file__).parents[2] / "docs" / "appendix" / "performance.md"
END = "<!-- end -->\n"
OURS = "ours"


@attrs.frozen
class Line:
    """Result of a workload.

    Attributes:
        base: target to which the others are compared.
        elements: number of elements.
        outcomes: outcomes by target, in the order of rounds, without the first; empty if the target
            failed.
    """

    name: str
    elements: int
    outcomes: dict[str, list[Outcome]]
    base: str


def measure(
    name: str, scale: float, targets: list[Target], rounds: int, seconds: float, base: str
) -> Line:
    """Runs one workload on all targets; a failed target is left out of further rounds."""
    elements = max(1, round(WORKLOADS[name].elements * scale))
    outcomes: dict[str, list[Outcome]] = {target.title: [] for target in targets}
    failed: set[str] = set()
    for number in range(rounds + 1):
        first = number % len(targets)
        for target in (*targets[first:], *targets[:first]):
            if target.title in failed:
                continue
            try:
                outcome = target.run(name, elements, seconds)
            except Failed as error:
                print(f"{name}: {target.title} failed: {error}", file=sys.stderr, flush=True)
                failed.add(target.title)
                outcomes[target.title] = []
                continue
            if number:
                outcomes[target.title].append(outcome)
    line = Line(name, elements, outcomes, base)
    print(row(line, [target.title for target in targets]), flush=True)
    return line


def header(titles: list[str], base: str) -> str:
    peers = [title for title in titles if title != base]
    columns = [
        "workload",
        "elements",
        *(f"{title}, s" for title in titles),
        *(f"{title} / {base}" for title in peers),
        f"latency of {base}, p50 / p90, ms",
    ]
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


def row(line: Line, titles: list[str]) -> str:
    medians = {
        title: statistics.median(outcome.seconds for outcome in outcomes)
        for title, outcomes in line.outcomes.items()
        if outcomes
    }
    ours = medians.get(line.base)
    digits = 1 if line.base == OURS else 3
    cells = [f"{line.name}: {WORKLOADS[line.name].title}", f"{line.elements:,}"]
    cells += [f"{medians[title]:.2f}" if title in medians else "" for title in titles]
    cells += [
        f"{medians[title] / ours:.{digits}f}" if ours and title in medians else ""
        for title in titles
        if title != line.base
    ]
    cells.append(latency(line.outcomes[line.base]))
    return f"| {' | '.join(cells)} |"


def latency(outcomes: list[Outcome]) -> str:
    every = sorted(second for outcome in outcomes for second in outcome.latencies)
    if not every:
        return ""
    return " / ".join(f"{every[int(part * (len(every) - 1))] * 1000:.0f}" for part in (0.5, 0.9))


def text_of(lines: list[Line], titles: list[str], arguments: argparse.Namespace) -> str:
    about = (
        f"The machine had {os.cpu_count()} cores, Python {platform.python_version()}, Beam "
        f"{version('apache-beam')} and PySpark {version('pyspark')}. The table has wall seconds from "
        f"submission to the end of a job, as medians of {arguments.rounds} warm, interleaved rounds. "
        f"This runner used {arguments.environment or 'embedded'} user code, and Prism used LOOPBACK."
    )
    table = "\n".join([header(titles, OURS), *(row(line, titles) for line in lines)])
    note = f"{arguments.note}\n\n" if arguments.note else ""
    return f"{note}{about}\n\n{table}\n"


def write(text: str, table: str) -> None:
    """Replaces the table in its page."""
    begin = f"<!-- table: {table} -->\n"
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{PAGE} has no place for the table: {begin.strip()} ... {END.strip()}")
    PAGE.write_text(before + begin + text + END + after, encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--workload", help="names, with commas between them; all without, or with --pages some"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of every workload's size")
    parser.add_argument("--rounds", type=int, default=3, help="that count")
    parser.add_argument("--seconds", type=float, default=300.0, help="limit for one run")
    parser.add_argument("--prism", default=shutil.which("prism"), help="Prism's binary")
    parser.add_argument("--endpoint", help="of a server that runs; without, one is started")
    parser.add_argument("--environment", default="", help="environment type named to ours")
    parser.add_argument("--server-flag", action="append", default=[], help="of the server")
    parser.add_argument("--note", default="", help="goes above the table")
    parser.add_argument(
        "--pages",
        action="store_true",
        help="compare this runner alone: without its web pages, with pages without a viewer, "
        "and with a viewer of each job; a quiet machine and many --rounds say most",
    )
    parser.add_argument("--write", action="store_true", help=f"write into {PAGE.name}")
    arguments = parser.parse_args()
    if arguments.pages and (arguments.write or arguments.endpoint):
        parser.error("--pages starts separate servers; omit --write and --endpoint")
    return arguments


def main() -> None:
    arguments = parse()
    everything = OF_PAGES if arguments.pages else WORKLOADS
    names = arguments.workload.split(",") if arguments.workload else list(everything)
    if unknown := [name for name in names if name not in WORKLOADS]:
        raise SystemExit(f"no such workload: {unknown}; there are {list(WORKLOADS)}")
    flags = tuple(arguments.server_flag)
    base = WITHOUT if arguments.pages else OURS
    started = (
        targets_of_pages(arguments.environment, flags)
        if arguments.pages
        else all_targets(arguments.prism, arguments.endpoint, arguments.environment, flags)
    )
    with started as targets:
        titles = [target.title for target in targets]
        print(header(titles, base), flush=True)
        lines = [
            measure(name, arguments.scale, targets, arguments.rounds, arguments.seconds, base)
            for name in names
        ]
        if arguments.pages:
            print(wall_ratios(line.outcomes for line in lines), flush=True)
    if arguments.write:
        write(text_of(lines, titles, arguments), "bench")
    if not all(line.outcomes[base] for line in lines):
        raise SystemExit("ours failed a workload")


if __name__ == "__main__":
    main()
