"""Tests that the listings of public names contain exactly the names that other packages use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.api_listing import format_listing, parse_listing
from tools.public_api import find_listing_problems, find_packages_without_release_notes

ROOT = Path(__file__).parents[2]
LOWER = "packages/model/src/beam_runner_model"
UPPER = "packages/engine/src/beam_runner_engine"
LISTING = "packages/model/public_api.txt"
FILES = {
    f"{LOWER}/__init__.py": "",
    f"{LOWER}/times.py": (
        "LIMIT: int = 3\n\ndef later(time: int, by: int = 1) -> int:\n    return time + by\n"
    ),
    f"{LOWER}/waits.py": (
        "from beam_runner_model.times import later\n\n"
        "class Wait:\n    shard: int\n    until: int = 0\n\n"
        "    def __init__(self) -> None:\n        self.count = later(1)\n\n"
        "    def ends(self, *, at: int) -> bool:\n        return True\n\n"
        "    def _inner(self) -> None: ...\n"
    ),
    f"{LOWER}/_secret.py": "KEY = 1\n",
    f"{UPPER}/__init__.py": "",
    f"{UPPER}/run.py": "from beam_runner_model.waits import Wait\n",
    "packages/model/pyproject.toml": "[project]\nname = 'beam-runner-model'\n",
    "packages/engine/pyproject.toml": "[project]\nname = 'beam-runner-engine'\n",
    "README.md": "```python\nfrom beam_runner_model import times\ntimes.later(1)\n```\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Returns a repository of two packages with their listings."""
    for name, text in FILES.items():
        put(tmp_path, name, text)
    assert list(find_listing_problems(tmp_path, rewrite=True)) == []
    return tmp_path


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, encoding="utf-8")


def test_api_listing_of_used_names_has_their_signatures(root: Path) -> None:
    lines = (root / LISTING).read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "",
        "[beam_runner_model.times]",
        "later(time: int, by: int = 1) -> int",
        "",
        "[beam_runner_model.waits]",
        "class Wait",
        "  .shard: int",
        "  .until: int = 0",
        "  .count",
        "  .__init__() -> None",
        "  .ends(*, at: int) -> bool",
    ]
    assert list(find_listing_problems(root)) == []


def test_api_listing_round_trips_through_read_and_write() -> None:
    for path in sorted(ROOT.glob("packages/*/public_api.txt")):
        text = path.read_text(encoding="utf-8")
        distribution = text.partition(":")[0].rpartition(" ")[2]
        assert format_listing(distribution, parse_listing(text)) == text


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (
            f"{UPPER}/more.py",
            "def f() -> int:\n    from beam_runner_model.times import LIMIT\n    return LIMIT\n",
            f"`beam_runner_model.times.LIMIT` is not listed, but used in {UPPER}/more.py:2",
        ),
        (
            f"{UPPER}/run.py",
            "",
            "`beam_runner_model.waits.Wait` is listed, but no other package or document uses it",
        ),
        (
            f"{LOWER}/times.py",
            "def later(time: int, by: int = 2) -> int: ...\n",
            "the signature of `beam_runner_model.times.later` differs from the listed one",
        ),
        (
            f"{UPPER}/more.py",
            "from beam_runner_model._secret import KEY\n",
            "`beam_runner_model._secret.KEY` is private",
        ),
        (
            f"{UPPER}/more.py",
            "from beam_runner_model.waits import later\n",
            "import `later` from its home, as `beam_runner_model.times.later`",
        ),
        (
            f"{UPPER}/more.py",
            "NAMES = ['beam_runner_model._secret']\n",
            f"{UPPER}/more.py:1: `beam_runner_model._secret` is private",
        ),
        (
            "packages/engine/README.md",
            "See `beam_runner_model.waits.Pause`.\n",
            "`beam_runner_model.waits` has no name `Pause`",
        ),
        (
            "packages/engine/pyproject.toml",
            "[project.scripts]\nrun = 'beam_runner_engine.run:main'\n",
            "`beam_runner_engine.run` has no name `main`",
        ),
        (
            "packages/engine/tests/test_run.py",
            "from beam_runner_model.testing import fakes\n",
            "`beam_runner_model` has no name `testing`",
        ),
    ],
)
def test_api_listing_that_differs_from_use_is_reported(
    root: Path, file: str, text: str, said: str
) -> None:
    put(root, file, text)
    assert any(said in line for line in find_listing_problems(root)), list(
        find_listing_problems(root)
    )


def test_api_listing_accepts_private_names_used_by_tests(root: Path) -> None:
    put(root, "packages/engine/tests/test_run.py", "from beam_runner_model._secret import KEY\n")
    assert list(find_listing_problems(root)) == []


def test_package_exports_each_listed_public_name(root: Path) -> None:
    lazy = (
        "from typing import TYPE_CHECKING\n\n"
        "if TYPE_CHECKING:\n    from beam_runner_model.times import LIMIT, later\n\n"
        "__all__ = ['later']\n"
    )
    put(root, f"{LOWER}/__init__.py", lazy)
    put(root, f"{UPPER}/more.py", "from beam_runner_model import LIMIT, later\n")
    found = list(find_listing_problems(root, rewrite=True))
    assert [line.partition(": ")[2] for line in found] == [
        "import `LIMIT` from its home, as `beam_runner_model.times.LIMIT`"
    ]
    assert "[beam_runner_model]\nlater(time: int" in (root / LISTING).read_text()


def test_api_listing_changed_without_release_notes_is_refused(root: Path) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    for command in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "Begin")):
        subprocess.run(["git", "-C", str(root), *command], check=True)
    assert list(find_packages_without_release_notes(root, "HEAD")) == []
    put(root, LISTING, "[beam_runner_model.times]\n")
    (said,) = find_packages_without_release_notes(root, "HEAD")
    assert f"{LISTING} has changed since HEAD" in said
    put(root, "packages/engine/changes/+other.added.md", "Of another package.\n")
    assert list(find_packages_without_release_notes(root, "HEAD")) == [said]
    put(root, "packages/model/changes/+times.removed.md", "`Wait` is gone.\n")
    assert list(find_packages_without_release_notes(root, "HEAD")) == []
