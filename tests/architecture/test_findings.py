"""The tests that docs/appendix/findings.md names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.findall(
    r"`([\w/.]+\.py)(?:::(\w+))?`", (ROOT / "docs/appendix/findings.md").read_text("utf-8")
)


def missing(path: str, test: str) -> str:
    """Returns the missing file or test name; empty if both exist."""
    if not (ROOT / path).is_file():
        return path
    return "" if re.search(rf"^def {test}\b", (ROOT / path).read_text("utf-8"), re.M) else test


def test_findings_page_names_only_existing_tests() -> None:
    assert len(NAMED) > 40
    assert [name for name in NAMED if not name[1] and not (ROOT / name[0]).is_file()] == []
    assert [name for name in NAMED if name[1] and missing(*name)] == []


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("tests/architecture/test_gone.py", "test_x"),
        ("tests/architecture/test_findings.py", "test_"),
    ],
)
def test_missing_test_or_file_is_reported(path: str, test: str) -> None:
    assert missing(path, test) in (path, test)
