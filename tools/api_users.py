"""Search for uses of a package's names in other packages, examples, documents and installers."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tools.used_names import find_uses_in_text

_CODE_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NAME_IN_PROSE = re.compile(r"`(beam_(?:runner|spark)_\w+(?:\.\w+)+)")
_FOR_TESTS = "testing"
"""Modules of a package for the tests of its users."""
Named = tuple[str, str]
"""A full name, such as ``beam_runner_model.waits.Wait``, and the place that uses it."""


def find_package_folders(root: Path) -> dict[str, Path]:
    """Returns the folder of each package's sources by its import name."""
    return {path.name: path for path in sorted(root.glob("packages/*/src/*")) if path.is_dir()}


def find_users_by_name(root: Path) -> dict[str, str]:
    """Returns each name that other packages use, with one place that uses it.

    The tests of a package may use its private names, so their uses don't count.
    """
    users: dict[str, str] = {}
    for use, place in _find_uses_across_packages(root):
        users.setdefault(use, place)
    return users


def _find_uses_across_packages(root: Path) -> Iterator[Named]:
    found = find_package_folders(root)
    roots = frozenset(found)
    modules = frozenset(module for folder in found.values() for module in _list_modules(folder))
    for own, folder in found.items():
        for path in sorted(folder.rglob("*.py")):
            code, place = path.read_text(encoding="utf-8"), str(path.relative_to(root))
            yield from _find_uses_in_code(code, place, roots - {own})
            yield from _find_modules_in_strings(code, place, modules, own)
        for path in sorted(folder.parents[1].glob("tests/**/*.py")):
            code, place = path.read_text(encoding="utf-8"), str(path.relative_to(root))
            for use in _find_uses_in_code(code, place, roots - {own}):
                if _FOR_TESTS in use[0].split("."):
                    yield use
        yield from _list_entry_point_targets(folder.parents[1] / "pyproject.toml", root)
    for path in (*root.glob("examples/**/*.py"), *root.glob("docs/**/*.py")):
        place = str(path.relative_to(root))
        yield from _find_uses_in_code(path.read_text(encoding="utf-8"), place, roots)
    for path in (*root.glob("docs/**/*.md"), *_list_readme_files(root)):
        for block in _CODE_BLOCK.findall(path.read_text(encoding="utf-8")):
            yield from _find_uses_in_code(block, str(path.relative_to(root)), roots)
    for path in _list_readme_files(root):
        for name in _NAME_IN_PROSE.findall(path.read_text(encoding="utf-8")):
            yield name, str(path.relative_to(root))


def _list_readme_files(root: Path) -> list[Path]:
    return [root / "README.md", *sorted(root.glob("packages/*/README.md"))]


def _list_modules(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        yield ".".join(parts).removesuffix(".__init__")


def _find_uses_in_code(code: str, place: str, roots: frozenset[str]) -> Iterator[Named]:
    """Yields the uses in source text. Names such as ``__doc__`` count as uses of their module."""
    for use in find_uses_in_text(code, Path(place), roots):
        yield use.name.partition(".__")[0], use.place


def _find_modules_in_strings(
    code: str, place: str, modules: frozenset[str], own: str
) -> Iterator[Named]:
    """Yields the modules of other packages in strings, because the code imports them at run time."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            first, dot, _ = node.value.partition(".")
            if dot and node.value in modules and first != own:
                yield node.value, f"{place}:{node.lineno}"


def _list_entry_point_targets(pyproject: Path, root: Path) -> Iterator[Named]:
    """Yields the targets of a package's commands and extensions."""
    if not pyproject.exists():
        return
    project = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("project", {})
    for group in (project.get("scripts", {}), *project.get("entry-points", {}).values()):
        for target in group.values():
            yield target.replace(":", "."), str(pyproject.relative_to(root))
