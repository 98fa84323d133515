"""Tests of the page of options, which a tool writes from the code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tools import option_tables  # noqa: E402 - the repository's tools are in no distribution


def test_options_page_is_current() -> None:
    assert option_tables.PAGE.read_text("utf-8") == option_tables.render_page(), (
        option_tables.COMMAND
    )


def test_options_page_names_flags_options_and_variables() -> None:
    page = option_tables.render_page()
    for name in (
        "--state-dir",
        "--spark-conf",
        "--web-port",
        "--beam_spark_bulk",
        "BEAM_RUNNER_MEMORY",
    ):
        assert f"`{name}" in page


def test_stale_options_page_fails_the_check_and_is_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(option_tables, "PAGE", tmp_path / "options.md")
    assert option_tables.main([]) == 1
    assert "--write" in capsys.readouterr().out
    assert option_tables.main(["--write"]) == 0
    assert option_tables.main([]) == 0


def test_environment_variable_without_docstring_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "packages/a/src/a/b.py"
    source.parent.mkdir(parents=True)
    source.write_text('NAME = "BEAM_RUNNER_X"\n"""What it is for."""\n')
    assert option_tables.find_environment_variables(tmp_path) == {
        "BEAM_RUNNER_X": "What it is for."
    }
    source.write_text('NAME = "BEAM_RUNNER_X"\nOTHER = 1\n')
    with pytest.raises(ValueError, match="BEAM_RUNNER_X has no docstring"):
        option_tables.find_environment_variables(tmp_path)
