"""The table of capabilities says what tests came to, and notices what no longer exists."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "capabilities.py"
RESULTS = """<testsuites><testsuite>
<testcase classname="tests.validates_runner.test_beam_suites" name="test_of_beam[fn_runner-test_pardo-default]"/>
<testcase classname="tests.validates_runner.test_beam_suites" name="test_of_beam[test_stream-T.test_a-LOOPBACK]">
<skipped type="pytest.xfail" message="refused by name: a feature"/></testcase>
<testcase classname="tests.validates_runner.test_beam_suites" name="test_of_beam[test_stream-T.test_b-default]">
<skipped type="pytest.xfail" message="panes"/></testcase>
<testcase classname="tests.validates_runner.test_beam_suites" name="test_of_beam[test_stream-T.test_c-default]">
<skipped type="pytest.skip" message="not for this runner"/></testcase>
<testcase classname="tests.pipelines.test_state" name="test_timers[LOOPBACK]"/>
<testcase classname="tests.pipelines.test_state" name="test_timers[embedded]"><failure message="no"/></testcase>
</testsuite></testsuites>"""
LIST = """
[[capability]]
name = "ParDo"
tests = ["fn_runner: test_par*"]

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
def outcomes(tool: ModuleType, tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "results.xml"
    path.write_text(RESULTS)
    return tool.results([path])


def test_one_failure_among_several_runs_counts(outcomes: dict[str, str]) -> None:
    assert outcomes == {
        "fn_runner: test_pardo": "passes",
        "test_stream: T.test_a": "refused by name: a feature",
        "test_stream: T.test_b": "differs: panes",
        "state: test_timers": "fails",
    }


def test_the_page(tool: ModuleType, outcomes: dict[str, str]) -> None:
    page = tool.page(tool.capabilities(LIST), outcomes)
    assert "| [ParDo](#pardo) | 1 of 1 |  |" in page
    assert (
        "| [Time flies](#time-flies) | 0 of 3 | differs: panes; fails; refused by name: a feature |"
        in page
    )
    assert "- fn_runner: `test_pardo`" in page


def test_a_name_that_no_test_has(tool: ModuleType, outcomes: dict[str, str]) -> None:
    (pardo, _) = tool.capabilities(LIST.replace("test_par*", "test_gone"))
    with pytest.raises(SystemExit, match="'fn_runner: test_gone'"):
        tool.shown_by(pardo, outcomes)
