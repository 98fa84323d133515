"""Tests that the tables in the documentation equal the tables in the code."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs" / "engine"


def test_documented_tables_equal_the_code() -> None:
    script = runpy.run_path(str(DOCS / "draw_tables.py"))
    page = (DOCS / "theory.md").read_text(encoding="utf-8")
    assert page.count("<!-- table: ") == 3
    assert script["drawn"](page) == page, "run python docs/engine/draw_tables.py"
