"""Tests that each message in docs/how-to/troubleshooting.md exists in the sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_GAP = "\0"


def texts() -> Iterator[str]:
    """Returns all string literals of the sources except docstrings. Formatted values are gaps."""
    for file in ROOT.glob("packages/*/src/**/*.py"):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if id(node) in docstrings:
                continue
            if isinstance(node, ast.JoinedStr):
                yield "".join(
                    part.value if isinstance(part, ast.Constant) else _GAP for part in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def messages() -> list[str]:
    """Returns the messages in the page's table."""
    page = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text()
    return re.findall(r"^\| `(.+?)` \|", page, re.MULTILINE)


def test_troubleshooting_messages_exist_in_the_sources() -> None:
    known = list(texts())
    quoted = messages()
    assert len(quoted) > 10
    patterns = {m: re.compile(re.escape(m).replace(r"\.\.\.", _GAP)) for m in quoted}
    unknown = [m for m, pattern in patterns.items() if not any(map(pattern.search, known))]
    assert unknown == []
