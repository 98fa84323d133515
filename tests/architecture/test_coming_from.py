"""Tests that each runner option in docs/how-to/coming-from.md exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "packages"
OF_BEAM = {
    "--runner",
    "--job_endpoint",
    "--environment_config",
    "--environment_type",
    "--requirements_file",
    "--streaming",
    "--setup_file",
    "--spark_master_url",
    "--sdk_worker_parallelism",
    "--prism_location",
}


def literals(folder: Path) -> Iterator[str]:
    """Yields all string literals of the sources."""
    for file in folder.glob("*/src/**/*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def options(text: str) -> set[str]:
    """Returns the options that a text mentions, without values."""
    return {found.rstrip("-_") for found in re.findall(r"(?<![\w-])--[a-z][a-z_-]+", text)}


def rows() -> list[list[str]]:
    """Returns the cells of the page's tables."""
    page = (ROOT / "docs" / "how-to" / "coming-from.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_migration_page_names_only_existing_flags_and_options() -> None:
    known = set(literals(SOURCES))
    ours = {f"--{text}" for text in known if text.startswith("beam_spark_")} | known
    page = (ROOT / "docs" / "how-to" / "coming-from.md").read_text()
    here = set.union(*(options(row[1]) for row in rows()))
    assert len(here) > 10
    assert here - ours - OF_BEAM == set()
    of_theirs = {option for row in rows() for option in options(row[0])}
    assert options(page) - ours - OF_BEAM - of_theirs == set()
