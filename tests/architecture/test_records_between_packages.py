"""Tests that packages exchange records: web and jobservices apply no regular expression to texts of other packages."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REASONS: Mapping[str, str] = {
    "jobservices/failures.py": "tracebacks, as Python and the SDKs of Beam write them",
    "jobservices/job_specs.py": "the names that users give to jobs",
    "jobservices/step_names.py": "the name of a step that this package puts before a message",
    "web/html/job_list.py": "the ids that Prism gives to jobs",
    "web/watch/masking.py": "the names and values of options that may be secret",
    "web/html/rendering.py": "the templates of this package",
    "jobservices/figures/texts.py": "control characters that would harm a page",
}
"""Module -> origin of the texts that its regular expressions read."""


def users_of_regular_expressions(packages: Path) -> set[str]:
    """Returns the modules of web and jobservices that import `re`."""
    found = set()
    for package in ("jobservices", "web"):
        (source,) = (packages / package / "src").iterdir()
        for file in source.rglob("*.py"):
            if any(map(_imports_re, ast.walk(ast.parse(file.read_text())))):
                found.add(f"{package}/{file.relative_to(source)}")
    return found


def _imports_re(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name in ("re", "regex") for alias in node.names)
    return isinstance(node, ast.ImportFrom) and node.module in ("re", "regex")


def test_module_that_imports_re_has_a_listed_reason() -> None:
    assert users_of_regular_expressions(ROOT / "packages") == REASONS.keys()


@pytest.mark.parametrize("line", ["import re", "import json, re", "from re import match"])
def test_regular_expression_check_reports_a_planted_import_of_re(tmp_path: Path, line: str) -> None:
    for package in ("jobservices", "web"):
        (tmp_path / package / "src" / f"beam_runner_{package}").mkdir(parents=True)
    planted = tmp_path / "web" / "src" / "beam_runner_web" / "causes.py"
    planted.write_text(f"def f():\n    {line}\n")
    assert users_of_regular_expressions(tmp_path) == {"web/causes.py"}
