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
# Columns of the table: user code in Spark's workers, in the submitting process, in a separate
# process, and in Go over LOOPBACK; bundles only on lanes (without the scheduler loop in a worker
# process); a cluster of three executors.
COLUMNS = ("embedded", "LOOPBACK", "PROCESS", "Go", "lanes", "cluster")
_OF_FILE = {"go": "Go", "lanes": "lanes", "cluster": "cluster"}
_OF_ENVIRONMENT = {"LOOPBACK": "LOOPBACK", "PROCESS": "PROCESS"}
_BEAM = re.compile(r"test_beam_suite\[(\w+?)-(.+)-(?:default|LOOPBACK)\]")
_GO = re.compile(r"test_go_suite\[(\w+)\]")
_INTRODUCTION = """\
# Capabilities

The table has the number of tests that pass for each part of the Beam model in each [environment](../how-to/environments.md). Every test runs a complete pipeline on a server. Many tests are from Beam's own suites ([list](../../tests/capabilities.toml)).

*Go* is Go over LOOPBACK, *lanes* is embedded user code without the [loop](../explanation/concepts.md#the-loop), and *cluster* has three executors. *Differences* are missing features and tests with another outcome.

`nox -s capabilities -- --write` writes this page from the results of CI.
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

    If a test ran with several parameters in a column, the result is a pass only if all runs passed.
    Skipped tests are left out. A later file of the same name has tests that ran again, and replaces
    their outcomes.
    """
    cases = {
        (path.stem, case.attrib["classname"], case.attrib["name"]): case
        for path in paths
        for case in ElementTree.parse(path).iter("testcase")
    }
    found: Outcomes = {}
    for (file, _, test), case in cases.items():
        outcome = _test_outcome(case)
        if outcome:
            columns = found.setdefault(_test_name(case.attrib), {})
            column = _get_environment_column(file, test)
            if columns.get(column, PASSES) == PASSES:
                columns[column] = outcome
    return found


def _get_environment_column(file: str, test: str) -> str:
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


def find_tests_of_capability(capability: Capability, outcomes: Outcomes) -> Outcomes:
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
    heads = ("part of the model", *COLUMNS, "differences")
    table = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for capability in listed:
        shown = find_tests_of_capability(capability, outcomes)
        row = (
            capability.name,
            *(_format_table_cell(shown, column) for column in COLUMNS),
            "; ".join([*filter(None, [capability.gap]), *_list_differences(shown)]),
        )
        table.append(f"| {' | '.join(row)} |")
    return "\n".join([_INTRODUCTION, *table, ""])


def _format_table_cell(shown: Outcomes, column: str) -> str:
    """Returns the number of passed tests, or ``passed of run``; empty if no test ran in the column."""
    ran = [columns[column] for columns in shown.values() if column in columns]
    passed = ran.count(PASSES)
    if not ran:
        return ""
    return str(passed) if passed == len(ran) else f"{passed} of {len(ran)}"


def _list_differences(shown: Outcomes) -> list[str]:
    """Returns the tests that didn't pass, each with its outcome and column."""
    return [
        f"`{test}` {outcome} ({column})"
        for test, columns in shown.items()
        for column, outcome in columns.items()
        if outcome != PASSES
    ]


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
        raise SystemExit(
            f"{PAGE.name} differs from the test results: run nox -s capabilities -- --write"
        )


if __name__ == "__main__":
    main()
