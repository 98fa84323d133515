"""Writes docs/reference/capabilities.md from test results: ``python tools/capabilities.py --write RESULTS.xml
...``.

The results are JUnit files of sessions that ran pipelines. ``tests/capabilities.toml`` maps parts
of the Beam model to tests. A pattern that matches no test is an error. Without ``--write``, a page
that differs from the results is an error.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import re
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "capabilities.toml"
PAGE = ROOT / "docs" / "reference" / "capabilities.md"
PASSES = "passes"
# Environments of the pipelines: Spark's workers, the submitting process, a separate process, and
# Go's SDK over LOOPBACK; bundles on lanes only, without the loop inside a task; a cluster of three executors.
COLUMNS = ("embedded", "LOOPBACK", "PROCESS", "Go", "lanes", "cluster")
_OF_FILE = {"go": "Go", "lanes": "lanes", "cluster": "cluster"}
_OF_ENVIRONMENT = {"LOOPBACK": "LOOPBACK", "PROCESS": "PROCESS"}
_BEAM = re.compile(r"test_beam_suite\[(\w+?)-(.+)-(?:default|LOOPBACK)\]")
_GO = re.compile(r"test_go_suite\[(\w+)\]")
_INTRODUCTION = """\
# Capabilities

This page lists the supported parts of the Beam model, and the tests of each part. Every test runs a complete pipeline on a server.

A column has the number of tests that pass in an [environment](../how-to/environments.md). The column *Go* is Go over LOOPBACK. The column *lanes* is embedded user code without the [loop](../explanation/concepts.md#the-loop). The column *cluster* is a cluster of three executors.

The suites `fn_runner`, `test_stream`, `validates_runner`, `userstate`, `trigger` and `transforms_of_beam` are Beam's suites, and the suite `go` is from Beam's Go SDK. Other suites are files in `tests/pipelines`. Beam's suites run on Spark. In CI, most other suites run on a server without Spark.

The session `nox -s capabilities` compares this page with the results of CI. To write this page, run `nox -s capabilities -- --write`. The file `tests/capabilities.toml` maps parts of the model to tests.
"""


@dataclass(frozen=True)
class Capability:
    """Part of the Beam model.

    Attributes:
        tests: patterns of test names.
        gap: description of the missing parts; empty if no gap is known.
    """

    name: str
    tests: tuple[str, ...]
    gap: str


def parse_capabilities(text: str) -> list[Capability]:
    """Returns the listed capabilities in the order of the file."""
    return [
        Capability(entry["name"], tuple(entry.get("tests", ())), entry.get("gap", ""))
        for entry in tomllib.loads(text)["capability"]
    ]


Outcomes = dict[str, dict[str, str]]
"""Outcome of every test in each column, by test name without environments and parameters."""


def read_results(paths: Iterable[Path]) -> Outcomes:
    """Returns the outcomes in the files.

    If a test ran several times in a column, an outcome other than a pass takes precedence. Skipped
    tests are left out.
    """
    found: Outcomes = {}
    for path in paths:
        for case in ElementTree.parse(path).iter("testcase"):
            outcome = _test_outcome(case)
            if outcome:
                columns = found.setdefault(_test_name(case.attrib), {})
                column = _environment_column(path.stem, case.attrib["name"])
                if columns.get(column, PASSES) == PASSES:
                    columns[column] = outcome
    return found


def _environment_column(file: str, test: str) -> str:
    if file in _OF_FILE:
        return _OF_FILE[file]
    parameters = test.partition("[")[2].rstrip("]").split("-")
    named = [_OF_ENVIRONMENT[p] for p in parameters if p in _OF_ENVIRONMENT]
    return named[0] if named else COLUMNS[0]


def _test_name(case: Mapping[str, str]) -> str:
    if beams := _BEAM.fullmatch(case["name"]):
        return f"{beams[1]}: {beams[2]}"
    if gos := _GO.fullmatch(case["name"]):
        return f"go: {gos[1]}"
    module = case["classname"].rpartition(".")[2].removeprefix("test_")
    return f"{module}: {case['name'].partition('[')[0]}"


def _test_outcome(case: Any) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "fails"
    skipped = case.find("skipped")
    if skipped is None:
        return PASSES
    if skipped.get("type") != "pytest.xfail":
        return ""
    reason = str(skipped.get("message", "")).strip()
    return reason if reason.startswith("refused") else f"differs: {reason}"


def tests_of_capability(capability: Capability, outcomes: Outcomes) -> Outcomes:
    """Returns the tests of a capability with their outcomes, in the order of the patterns.

    Raises:
        SystemExit: a pattern matches no test.
    """
    shown: Outcomes = {}
    for pattern in capability.tests:
        matching = sorted(fnmatch.filter(outcomes, pattern))
        if not matching:
            raise SystemExit(f"{LIST.name}: {capability.name}: no test is called {pattern!r}")
        shown.update((name, outcomes[name]) for name in matching)
    return shown


def render_page(listed: list[Capability], outcomes: Outcomes) -> str:
    """Returns the text of the page."""
    heads = ("part of the model", *COLUMNS, "else")
    table = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    details = []
    for capability in listed:
        shown = tests_of_capability(capability, outcomes)
        others = {o for columns in shown.values() for o in columns.values() if o != PASSES}
        notes = [capability.gap] if capability.gap else []
        anchor = re.sub(r"[^\w-]", "", capability.name.lower().replace(" ", "-"))
        row = (
            f"[{capability.name}](#{anchor})",
            *(_table_cell(shown, column) for column in COLUMNS),
            "; ".join(notes + sorted(others)),
        )
        table.append(f"| {' | '.join(row)} |")
        details.append(_test_details(capability.name, shown))
    return "\n".join([_INTRODUCTION, *table, "", *details])


def _table_cell(shown: Outcomes, column: str) -> str:
    """Returns the number of passed tests, or ``passed of run``; empty if no test ran in the column."""
    ran = [columns[column] for columns in shown.values() if column in columns]
    passed = ran.count(PASSES)
    if not ran:
        return ""
    return str(passed) if passed == len(ran) else f"{passed} of {len(ran)}"


def _test_details(name: str, shown: Outcomes) -> str:
    lines = [f"## {name}", ""]
    by_suite: dict[str, list[str]] = {}
    others = []
    for test, columns in shown.items():
        suite, _, method = test.partition(": ")
        if PASSES in columns.values():
            by_suite.setdefault(suite, []).append(f"`{method}`")
        others += [f"| `{test}` | {o} ({c}) |" for c, o in columns.items() if o != PASSES]
    rows = [f"| {suite} | {', '.join(methods)} |" for suite, methods in by_suite.items()]
    if rows or others:
        lines += ["| suite | tests |", "|---|---|", *rows, *others]
    else:
        lines.append(f"No test covers {name}.")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("results", nargs="+", type=Path, help="JUnit files")
    arguments = parser.parse_args()
    listed = parse_capabilities(LIST.read_text(encoding="utf-8"))
    written = render_page(listed, read_results(arguments.results))
    if arguments.write:
        PAGE.write_text(written, encoding="utf-8")
        return
    there = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if there != written:
        sys.stdout.writelines(
            difflib.unified_diff(
                there.splitlines(keepends=True),
                written.splitlines(keepends=True),
                "page",
                "results",
            )
        )
        raise SystemExit(f"{PAGE.name} says something else: nox -s capabilities -- --write")


if __name__ == "__main__":
    main()
