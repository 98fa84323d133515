"""Fails if two modules of our packages define a class of the same name.

Names that start with an underscore may repeat, because only their module sees them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def find_repeated_class_names(root: Path) -> Iterator[str]:
    """Yields the class names that are defined more than once, with their modules."""
    homes: dict[str, list[str]] = {}
    for path in sorted(root.glob("packages/*/src/**/*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(root)))
    for name, paths in sorted(homes.items()):
        if len(paths) > 1:
            yield f"the class name `{name}` is defined in {' and '.join(paths)}: rename one"


if __name__ == "__main__":
    found = list(find_repeated_class_names(ROOT))
    print("\n".join(found) or "Every class name stands for one class.")
    sys.exit(1 if found else 0)
