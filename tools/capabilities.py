"""Writes docs/capabilities.md from what tests came to: ``python tools/capabilities.py --write RESULTS.xml ...``.

The results are JUnit files of sessions that ran whole pipelines. ``tests/capabilities.toml`` says which
tests show which part of the Beam model; a name there that no test has is an error, and so is, without
``--write``, a page that says something else than the results.
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
PAGE = ROOT / "docs" / "capabilities.md"
PASSES = "passes"
_BEAM = re.compile(r"test_of_beam\[(\w+?)-(.+)-(?:default|LOOPBACK)\]")
_INTRODUCTION = """\
# Capabilities

What of the Beam model works, and the tests that show it: each runs whole pipelines against the server on Spark.
`fn_runner`, `test_stream` and `validates_runner` are suites of Beam's own, the other names are files in `tests/pipelines`.

`nox -s capabilities` compares this page with what the sessions `pipelines` and `validates_runner` came to the last time;
`nox -s capabilities -- --write` writes it. Which test shows what is said in `tests/capabilities.toml`.
"""


@dataclass(frozen=True)
class Capability:
    """A part of the Beam model.

    Attributes:
        tests: patterns of names of tests.
        gap: what is missing, in words; empty if nothing is known to be.
    """

    name: str
    tests: tuple[str, ...]
    gap: str


def capabilities(text: str) -> list[Capability]:
    """What the list names, in its order."""
    return [
        Capability(entry["name"], tuple(entry.get("tests", ())), entry.get("gap", ""))
        for entry in tomllib.loads(text)["capability"]
    ]


def results(paths: Iterable[Path]) -> dict[str, str]:
    """What became of every test, by its name without environments and parameters.

    Of a test that ran several times, what is not a pass counts. Tests that were skipped are left out.
    """
    found: dict[str, str] = {}
    for path in paths:
        for case in ElementTree.parse(path).iter("testcase"):
            outcome = _outcome(case)
            name = _name(case.attrib)
            if outcome and found.get(name, PASSES) == PASSES:
                found[name] = outcome
    return found


def _name(case: Mapping[str, str]) -> str:
    beams = _BEAM.fullmatch(case["name"])
    if beams:
        return f"{beams[1]}: {beams[2]}"
    module = case["classname"].rpartition(".")[2].removeprefix("test_")
    return f"{module}: {case['name'].partition('[')[0]}"


def _outcome(case: Any) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "fails"
    skipped = case.find("skipped")
    if skipped is None:
        return PASSES
    if skipped.get("type") != "pytest.xfail":
        return ""
    reason = str(skipped.get("message", "")).strip()
    return reason if reason.startswith("refused") else f"differs: {reason}"


def shown_by(capability: Capability, outcomes: Mapping[str, str]) -> dict[str, str]:
    """The tests of a capability with what became of them, in the order of the patterns.

    Raises:
        SystemExit: a pattern is no test's name.
    """
    shown: dict[str, str] = {}
    for pattern in capability.tests:
        matching = sorted(fnmatch.filter(outcomes, pattern))
        if not matching:
            raise SystemExit(f"{LIST.name}: {capability.name}: no test is called {pattern!r}")
        shown.update((name, outcomes[name]) for name in matching)
    return shown


def page(listed: list[Capability], outcomes: Mapping[str, str]) -> str:
    """The whole page."""
    table = ["| part of the model | tests that pass | else |", "|---|---|---|"]
    details = []
    for capability in listed:
        shown = shown_by(capability, outcomes)
        passed = [name for name, outcome in shown.items() if outcome == PASSES]
        others = {name: outcome for name, outcome in shown.items() if outcome != PASSES}
        notes = [capability.gap] if capability.gap else []
        notes += sorted(set(others.values()))
        anchor = re.sub(r"[^\w-]", "", capability.name.lower().replace(" ", "-"))
        row = (
            f"[{capability.name}](#{anchor})",
            f"{len(passed)} of {len(shown)}",
            "; ".join(notes),
        )
        table.append(f"| {' | '.join(row)} |")
        details.append(_details(capability.name, passed, others))
    return "\n".join([_INTRODUCTION, *table, "", *details])


def _details(name: str, passed: list[str], others: Mapping[str, str]) -> str:
    lines = [f"## {name}", ""]
    by_suite: dict[str, list[str]] = {}
    for test in passed:
        suite, _, method = test.partition(": ")
        by_suite.setdefault(suite, []).append(f"`{method}`")
    lines += [f"- {suite}: {', '.join(methods)}" for suite, methods in by_suite.items()]
    lines += [f"- `{test}` {outcome}" for test, outcome in others.items()]
    if len(lines) == 2:
        lines.append("No test shows it.")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("results", nargs="+", type=Path, help="JUnit files")
    arguments = parser.parse_args()
    listed = capabilities(LIST.read_text(encoding="utf-8"))
    written = page(listed, results(arguments.results))
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
