"""Tests that the documentation of the keyed half has correct tables and running examples."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[4] / "docs" / "engine"
README = Path(__file__).resolve().parents[2] / "README.md"


def test_documented_tables_of_keyed_state_equal_the_code() -> None:
    script = runpy.run_path(str(DOCS / "draw_keyed_tables.py"))
    page = (DOCS / "keyed.md").read_text(encoding="utf-8")
    assert page.count("<!-- table: ") == 2
    assert script["drawn"](page) == page, "run python docs/engine/draw_keyed_tables.py"


def _run_examples(page: str) -> int:
    """Runs all Python blocks of a page in order, and returns their number."""
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    return len(blocks)


def test_documented_engine_examples_run_without_an_error() -> None:
    assert _run_examples((DOCS / "keyed.md").read_text(encoding="utf-8")) == 2


def test_readme_example_runs() -> None:
    assert _run_examples(README.read_text(encoding="utf-8")) == 1
