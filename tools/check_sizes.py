"""Refuses files above 400 lines and functions above 60: ``python tools/check_sizes.py [folder]``."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

MOST_LINES_IN_FILE = 400
MOST_LINES_IN_FUNCTION = 60
SKIPPED_FOLDERS = {"build", "dist", "__pycache__"}


def find_python_files(root: Path) -> Iterator[Path]:
    for folder, subfolders, files in os.walk(root):
        # Don't enter hidden folders: another session can build its environment in them.
        subfolders[:] = sorted(
            name for name in subfolders if name[0] != "." and name not in SKIPPED_FOLDERS
        )
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".py"))


def find_size_excesses(path: Path) -> Iterator[str]:
    """Yields one line of text for each limit that the file exceeds."""
    source = path.read_text(encoding="utf-8")
    lines = len(source.splitlines())
    if lines > MOST_LINES_IN_FILE:
        yield f"{path}: {lines} lines, at most {MOST_LINES_IN_FILE}: it holds more than one idea"
    for node in ast.walk(ast.parse(source, filename=str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MOST_LINES_IN_FUNCTION:
                yield (
                    f"{path}:{node.lineno}: {node.name} has {length} lines, "
                    f"at most {MOST_LINES_IN_FUNCTION}: name its steps"
                )


def main(root: Path) -> int:
    found = [text for path in find_python_files(root) for text in find_size_excesses(path)]
    print("\n".join(found) or "Every file and function is within its limits.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
