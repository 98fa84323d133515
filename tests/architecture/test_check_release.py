"""Tests that the release check reports missing and additional files of a distribution."""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.check_release import find_release_problems

NEEDED = (
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "pyproject.toml",
    "src/names/__init__.py",
    "src/names/a.css",
)


@pytest.mark.parametrize(
    ("without", "in_wheel", "expected"),
    [
        ((), ("names/__init__.py", "names/a.css", "names-1.dist-info/METADATA"), []),
        (
            ("CHANGELOG.md", "src/names/a.css"),
            ("names/__init__.py", "names/a.css"),
            [
                "the source distribution lacks CHANGELOG.md",
                "the source distribution lacks src/names/a.css",
            ],
        ),
        (
            (),
            ("names/__init__.py", "tests/test_a.py"),
            [
                "the wheel lacks src/names/a.css",
                "the wheel has src/tests/test_a.py, which is no source",
            ],
        ),
    ],
)
def test_release_check_compares_wheel_and_sdist_with_the_source(
    tmp_path: Path, without: tuple[str, ...], in_wheel: tuple[str, ...], expected: list[str]
) -> None:
    for name in (*NEEDED, "src/names/__pycache__/a.pyc"):
        file = tmp_path / "package" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    with tarfile.open(tmp_path / "names-1.tar.gz", "w:gz") as sdist:
        for name in NEEDED:
            if name not in without:
                sdist.addfile(tarfile.TarInfo(f"names-1/{name}"), io.BytesIO())
    with zipfile.ZipFile(tmp_path / "names-1-py3-none-any.whl", "w") as wheel:
        for name in in_wheel:
            wheel.writestr(name, "")
    assert find_release_problems(tmp_path / "package", tmp_path / "names-1") == expected
