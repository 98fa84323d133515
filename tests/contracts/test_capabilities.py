"""Tests that the table of capabilities shows the test outcomes, and refuses names of missing tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

Outcomes = dict[str, dict[str, str]]
TOOL = Path(__file__).parents[2] / "tools" / "capabilities.py"
RESULTS = """<testsuites><testsuite>
<testcase classname="tests.validates_runner.test_beam_suites" name="test_beam_suite[fn_runner-test_pardo-default]"/>
<testcase classname="tests.validates_runner.test_beam_suites" name="test_beam_suite[test_stream-T.test_a-LOOPBACK]">
<skipped type="pytest.xfail" message="refused by name: a feature"/></testcase>
<testcase classname="tests.validates_runner.test_beam_suites" name="test_beam_suite[test_stream-T.test_b-default]">
<skipped type="pytest.xfail" message="panes"/></testcase>
<testcase classname="tests.validates_runner.test_beam_suites" name="test_beam_suite[test_stream-T.test_c-default]">
<skipped type="pytest.skip" message="not for this runner"/></testcase>
<testcase classname="tests.pipelines.test_state" name="test_timers[LOOPBACK]"/>
<testcase classname="tests.pipelines.test_state" name="test_timers[embedded]"><failure message="no"/></testcase>
</testsuite></testsuites>"""
LANES = """<testsuites><testsuite>
<testcase classname="tests.pipelines.test_state" name="test_timers[embedded]"/>
</testsuite></testsuites>"""
GO = """<testsuites><testsuite>
<testcase classname="tests.go.test_go_suite" name="test_go_suite[TestPardo]"/>
</testsuite></testsuites>"""
LIST = """
[[capability]]
name = "ParDo"
tests = ["fn_runner: test_par*", "go: TestPardo"]

[[capability]]
name = "Time flies"
tests = ["test_stream: *", "state: test_timers"]
"""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("capabilities", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["capabilities"] = module  # its dataclass looks there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def outcomes(tool: ModuleType, tmp_path: Path) -> Outcomes:
    for name, text in (("results", RESULTS), ("lanes", LANES), ("go", GO)):
        (tmp_path / f"{name}.xml").write_text(text)
    return tool.read_results([tmp_path / f"{name}.xml" for name in ("results", "lanes", "go")])


def test_capability_outcomes_are_separated_by_environment(outcomes: Outcomes) -> None:
    assert outcomes == {
        "fn_runner: test_pardo": {"embedded": "passes"},
        "test_stream: T.test_a": {"LOOPBACK": "refused by name: a feature"},
        "test_stream: T.test_b": {"embedded": "differs: panes"},
        "state: test_timers": {"LOOPBACK": "passes", "embedded": "fails", "lanes": "passes"},
        "go: TestPardo": {"Go": "passes"},
    }


def test_test_that_ran_again_counts_by_its_second_outcome(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "repeated").mkdir()
    first, again = tmp_path / "results.xml", tmp_path / "repeated" / "results.xml"
    first.write_text(RESULTS)
    again.write_text(
        """<testsuites><testsuite>
        <testcase classname="tests.pipelines.test_state" name="test_timers[embedded]"/>
        </testsuite></testsuites>"""
    )
    passed = tool.read_results([first, again])
    assert passed["state: test_timers"] == {"LOOPBACK": "passes", "embedded": "passes"}


def test_capability_page_lists_outcomes_and_gaps(tool: ModuleType, outcomes: Outcomes) -> None:
    page = tool.render_page(tool.parse_capabilities(LIST), outcomes)
    rows = {
        cells[1].strip(): [cell.strip() for cell in cells[2:-1]]
        for cells in (line.split("|") for line in page.splitlines() if line.startswith("|"))
    }
    assert rows["ParDo"] == ["1", "", "", "1", "", "", ""]
    *counts, differences = rows["Time flies"]
    assert counts == ["0 of 2", "1 of 2", "", "", "1", ""]
    assert differences.split("; ") == [
        "`test_stream: T.test_a` refused by name: a feature (LOOPBACK)",
        "`test_stream: T.test_b` differs: panes (embedded)",
        "`state: test_timers` fails (embedded)",
    ]


def test_capability_with_one_failed_run_is_not_a_pass(tool: ModuleType, tmp_path: Path) -> None:
    again = tmp_path / "again.xml"
    again.write_text(RESULTS.replace("LOOPBACK]", "embedded]"))
    assert tool.read_results([again])["state: test_timers"] == {"embedded": "fails"}


def test_capability_pattern_without_a_test_is_refused(tool: ModuleType, outcomes: Outcomes) -> None:
    (pardo, _) = tool.parse_capabilities(LIST.replace("test_par*", "test_gone"))
    with pytest.raises(SystemExit, match="'fn_runner: test_gone'"):
        tool.find_tests_of_capability(pardo, outcomes)
