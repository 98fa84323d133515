"""Refuses tests without checks: ``python -m tools.check_tests [folder]``.

A test has a check if it asserts, expects an exception, counts warnings, or calls a function that
does. Such a function is a helper of the tests, found by its name, or an assertion function of Beam
or Python.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.check_sizes import find_python_files

# Functions of pytest, Beam, unittest and Hypothesis that fail if a check fails.
ASSERTIONS = frozenset(
    {
        "raises",
        "warns",
        "fail",
        "assert_that",
        "run_state_machine_as_test",
        "assert_called_once_with",
        "assert_not_called",
    }
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_test_files(root: Path) -> Iterator[Path]:
    """Yields every Python file below a folder called ``tests``, or ``testing``, which contains helpers."""
    for path in find_python_files(root):
        if {"tests", "testing"} & set(path.relative_to(root).parts[:-1]):
            yield path


def find_functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def find_called_names(function: Function) -> set[str]:
    """Returns the names of the called functions, without the objects of methods."""
    called = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                called.add(node.func.id)
            elif isinstance(node.func, ast.Attribute):
                called.add(node.func.attr)
    return called


def contains_assertion(function: Function) -> bool:
    """Returns True if a function of a test file contains an assertion."""
    return any(isinstance(node, ast.Assert) for node in ast.walk(function))


def raises_assertion_error(function: Function) -> bool:
    """Returns True if a helper raises an AssertionError."""
    return any(
        isinstance(node, ast.Raise) and "AssertionError" in ast.unparse(node)
        for node in ast.walk(function)
    )


def find_asserting_functions(trees: Iterable[ast.AST]) -> set[str]:
    """Returns the names of the functions that assert, directly or through other test functions."""
    found = set(ASSERTIONS)
    rest = []
    for tree in trees:
        for function in find_functions(tree):
            if contains_assertion(function) or raises_assertion_error(function):
                found.add(function.name)
            else:
                rest.append((function.name, find_called_names(function)))
    while grown := {name for name, called in rest if name not in found and called & found}:
        found |= grown
    return found


def main(root: Path) -> int:
    trees = {
        p: ast.parse(p.read_text(encoding="utf-8"), filename=str(p)) for p in find_test_files(root)
    }
    assert_something = find_asserting_functions(trees.values())
    blind = [
        f"{path}:{function.lineno}: {function.name} looks at nothing: no assertion, no exception "
        "that is expected, no helper that asserts"
        for path, tree in trees.items()
        for function in find_functions(tree)
        if function.name.startswith("test_")
        and not (contains_assertion(function) or find_called_names(function) & assert_something)
    ]
    print("\n".join(blind) or "Every test looks at something.")
    return 1 if blind else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
