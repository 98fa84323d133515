"""Tests that the class name check reports a name of two classes."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.check_class_names import find_repeated_class_names

ROOT = Path(__file__).parents[2]


def put(root: Path, module: str, text: str) -> None:
    path = root / "packages" / module
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_class_name_shared_by_two_classes_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "engine/src/engine/timers.py", "class Timer: ...\n")
    put(tmp_path, "model/src/model/chunks.py", "class Timer: ...\n\nclass Chunk: ...\n")
    (said,) = find_repeated_class_names(tmp_path)
    assert said == (
        "the class name `Timer` is defined in packages/engine/src/engine/timers.py"
        " and packages/model/src/model/chunks.py: rename one"
    )


def test_private_nested_and_test_classes_may_repeat_a_name(tmp_path: Path) -> None:
    put(tmp_path, "engine/src/engine/a.py", "class _Call: ...\n\nclass A:\n    class Key: ...\n")
    put(tmp_path, "engine/src/engine/b.py", "class _Call: ...\n\nclass B:\n    class Key: ...\n")
    put(tmp_path, "engine/tests/test_a.py", "class A: ...\n")
    assert list(find_repeated_class_names(tmp_path)) == []


def test_class_names_of_this_repository_are_unique() -> None:
    assert list(find_repeated_class_names(ROOT)) == []
