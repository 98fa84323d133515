"""The page of connectors lists each connector of the installed Beam, and no other one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "connectors.md"
PARTS_OF_OTHERS = {"gcp.bigquery_file_loads"}
"""Modules whose transforms are steps of other connectors."""
_NO_CONNECTORS = re.compile(r"(^|\.)(tests|internal|clients|components)\.|_test$|_it_")
_ROW = re.compile(r"^\| `([\w.]+)` \| ([^|]+) \|", re.M)


def find_connectors() -> dict[str, set[str]]:
    """Returns the public transforms of each module of `apache_beam.io`.

    The function reads the sources, because some modules need clients that aren't installed.
    """
    spec = find_spec("apache_beam.io")
    assert spec is not None and spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0])
    found = {}
    for file in sorted(folder.rglob("*.py")):
        name = ".".join(file.relative_to(folder).with_suffix("").parts)
        if name in PARTS_OF_OTHERS or _NO_CONNECTORS.search(name):
            continue
        if transforms := set(find_transforms(ast.parse(file.read_text("utf-8")))):
            found[name] = transforms
    return found


def find_transforms(module: ast.Module) -> Iterator[str]:
    """Yields the public transforms of a module: classes, and functions that return one."""
    public = find_public_names(module)
    known: set[str] = set()
    for node in list_statements(module.body):
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
            if not any(base.endswith("Transform") or base in known for base in bases):
                continue
            known.add(node.name)
        elif not isinstance(node, ast.FunctionDef) or not re.match("Read|Write", node.name):
            continue
        if node.name in public if public else not node.name.startswith("_"):
            yield node.name


def list_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields statements, and the statements of ``try`` blocks around imports of optional packages."""
    for node in body:
        yield node
        if isinstance(node, ast.Try):
            yield from list_statements([*node.body, *node.orelse])


def find_public_names(module: ast.Module) -> set[str]:
    """Returns the names in ``__all__``; an empty set if the module has none."""
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return {
                ast.literal_eval(name)
                for name in getattr(node.value, "elts", ())
                if isinstance(name, ast.Constant)
            }
    return set()


def read_page() -> dict[str, set[str]]:
    return {
        module: set(re.findall(r"`(\w+)`", transforms))
        for module, transforms in _ROW.findall(PAGE.read_text("utf-8"))
    }


def test_connectors_page_lists_each_connector_of_beam() -> None:
    assert read_page() == find_connectors()


def test_connectors_page_check_finds_a_new_connector() -> None:
    module = ast.parse(
        "__all__ = ['ReadFromNews', 'ReadAll', 'Row']\n"
        "class ReadFromNews(beam.PTransform): pass\n"
        "class ReadAll(ReadFromNews): pass\n"
        "class Row(dict): pass\n"
        "class Hidden(PTransform): pass\n"
    )
    assert set(find_transforms(module)) == {"ReadFromNews", "ReadAll"}
    assert set(find_transforms(ast.parse("def WriteToNews(): pass"))) == {"WriteToNews"}
