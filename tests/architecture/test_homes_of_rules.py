"""Tests that each rule is in the single module that the documents name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_HEADING = "## Where each rule is\n"


def homes() -> list[str]:
    """Returns the names in the page's table, with their modules."""
    page = (ROOT / "docs" / "maintainers" / "where-to-look.md").read_text()
    rows = page.partition(_HEADING)[2].partition("\n## ")[0].splitlines()
    return [
        name for row in rows if row.startswith("|") for name in re.findall(r"`(\w[\w.]+)`", row)
    ]


def definitions() -> Iterator[tuple[str, str]]:
    """Returns the functions, classes, methods and constants of all packages, with their modules."""
    for source in ROOT.glob("packages/*/src"):
        for file in source.rglob("*.py"):
            module = ".".join(file.relative_to(source).with_suffix("").parts)
            yield from ((module, name) for name in _defined(ast.parse(file.read_text())))


def _defined(node: ast.Module | ast.ClassDef) -> Iterator[str]:
    for part in node.body:
        if isinstance(part, ast.FunctionDef | ast.ClassDef):
            yield part.name
        if isinstance(part, ast.Assign):
            yield from (name.id for name in part.targets if isinstance(name, ast.Name))
        if isinstance(part, ast.ClassDef):
            yield from (f"{part.name}.{name}" for name in _defined(part))


def test_documented_rule_is_implemented_in_one_module() -> None:
    found, rules = list(definitions()), homes()
    assert len(rules) > 10
    names = {f"{module}.{name}": name for module, name in found}
    said = {rule: [module for module, name in found if name == names.get(rule)] for rule in rules}
    assert said == {rule: [rule.removesuffix(f".{names.get(rule)}")] for rule in rules}
