"""Tests that the tested version pairs are the ends of the declared ranges, and that table updates retain other rows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.nox_support import read_project_table
from tools.version_cells import CELLS, VersionCell, find_lowest_versions
from tools.version_tables import NOT_RUN, format_outcome_cell, make_client_rows, replace_row

PAGE = """# Page

<!-- table: one -->
| A | B | what |
|---|---|---|
| 3.9 | x | old |
| 3.10 | x | kept |
<!-- end -->
Other text.
"""


def junit(folder: Path, cases: dict[str, str]) -> Path:
    """Returns a results file from test -> outcome element, empty for a pass."""
    path = folder / "results.xml"
    tests = (
        f'<testcase name="{name}">{f"<{what}/>" if what else ""}</testcase>'
        for name, what in cases.items()
    )
    path.write_text(f"<testsuites><testsuite>{''.join(tests)}</testsuite></testsuites>")
    return path


@pytest.mark.parametrize(("name", "attribute"), [("apache-beam", "beam"), ("pyspark", "pyspark")])
def test_tested_versions_are_the_ends_of_the_supported_ranges(name: str, attribute: str) -> None:
    needed = map(Requirement, read_project_table("executor")["dependencies"])
    (allowed,) = (one.specifier for one in needed if one.name == name)
    versions = {tuple(map(int, getattr(cell, attribute).split("."))) for cell in CELLS}
    for version, step, is_in in ((min(versions), -1, False), (max(versions), 1, False)):
        major, minor = version
        assert allowed.contains(f"{major}.{minor}.99")
        assert allowed.contains(f"{major}.{minor + step}.99") is is_in


def test_tested_version_pairs_combine_each_end_with_each_end_of_the_others() -> None:
    for one, other in (("pyspark", "beam"), ("pyspark", "python"), ("beam", "python")):
        pairs = {(getattr(cell, one), getattr(cell, other)) for cell in CELLS}
        ones, others = zip(*pairs, strict=True)
        assert pairs == {(a, b) for a in set(ones) for b in set(others)}


def test_lowest_tested_version_pair_has_the_oldest_versions() -> None:
    found = find_lowest_versions()
    (cell,) = (cell for cell in CELLS if cell.lowest)
    assert found["pyspark"].startswith(cell.pyspark) and found["apache-beam"] == cell.beam
    assert found["protobuf"] == "5.26.1"
    assert VersionCell("3.5", "2.72", "3.11", lowest=True).pyspark_version == found["pyspark"]


def test_version_table_row_replaces_the_previous_row(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    replace_row(page, "one", ("3.9.1", "x", "new"), keys=2)
    replace_row(page, "one", ("3.11", "x", "more"), keys=2)
    rows = "| 3.9.1 | x | new |\n| 3.10 | x | kept |\n| 3.11 | x | more |\n"
    assert page.read_text() == PAGE.replace("| 3.9 | x | old |\n| 3.10 | x | kept |\n", rows)


def test_version_table_row_that_did_not_run_is_unchanged(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    replace_row(page, "one", ("3.9", "x", NOT_RUN), keys=2)
    assert page.read_text() == PAGE
    replace_row(page, "one", ("3.11", "x", NOT_RUN), keys=2)
    assert f"| 3.11 | x | {NOT_RUN} |" in page.read_text()


def test_version_table_cell_that_did_not_run_is_not_a_pass(tmp_path: Path) -> None:
    assert format_outcome_cell(tmp_path / "nothing.xml") == NOT_RUN
    assert format_outcome_cell(junit(tmp_path, {"a": "skipped"})) == NOT_RUN
    assert format_outcome_cell(junit(tmp_path, {"a": "", "b": "skipped"})) == "1"
    assert (
        format_outcome_cell(junit(tmp_path, {"a": "", "b": "failure", "c": "error"}))
        == "**1 of 3**"
    )


def test_client_version_row_has_a_cell_for_each_environment(tmp_path: Path) -> None:
    cases = {
        "test_python_client_completes_or_is_refused_by_version[2.60-3.12-embedded]": "",
        "test_python_client_completes_or_is_refused_by_version[2.60-3.12-LOOPBACK]": "",
        "test_python_client_completes_or_is_refused_by_version[2.60-3.12-PROCESS]": "failure",
        "test_python_client_completes_or_is_refused_by_version[2.60-3.12-EXTERNAL]": "skipped",
        "test_python_client_completes_or_is_refused_by_version[2.70-3.13-LOOPBACK]": "skipped",
        "test_go_client_completes_or_is_refused_by_version[2.77-EXTERNAL]": "",
    }
    assert list(make_client_rows(junit(tmp_path, cases))) == [
        ("Python 2.60", "3.12", "refused", "right", "**fails**", NOT_RUN),
        ("Go 2.77", "", NOT_RUN, NOT_RUN, NOT_RUN, "right"),
    ]
    assert list(make_client_rows(tmp_path / "nothing.xml")) == []
