"""Tests of the version bounds between the packages: contradictions are named, and the oldest matching release is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.siblings import find_metadata_problems, find_oldest_releases, unpack_release

ROOT = Path(__file__).parents[2]
IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@example.com")


def put(root: Path, name: str, version: str, *needed: str, more: str = "") -> None:
    """Writes the ``pyproject.toml`` of a package."""
    folder = root / "packages" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "LICENSE").write_text("Terms\n")
    (root / "LICENSE").write_text("Terms\n")
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "beam-runner-{name}"\nversion = "{version}"\nlicense-files = ["LICENSE"]\n'
        f"dependencies = {[f'beam-runner-{one}' for one in needed]}\n{more}"
    )


def test_version_bounds_between_packages_of_this_repository_agree() -> None:
    assert list(find_metadata_problems(ROOT)) == []


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        ("model", "needs a lower and an upper bound"),
        ("model>=0.2", "needs a lower and an upper bound"),
        ("model>=0.3,<0.4", "refuses 0.2.1, the version in this repository"),
        ("model>=0.1,<0.2", "refuses 0.2.1, the version in this repository"),
        ("model>=0.2,<1", "allows versions from 0.3 on, which may be incompatible"),
    ],
)
def test_version_bounds_that_exclude_the_version_of_a_package_are_refused(
    tmp_path: Path, bound: str, said: str
) -> None:
    put(tmp_path, "model", "0.2.1")
    put(tmp_path, "engine", "0.2.0", bound)
    (found,) = find_metadata_problems(tmp_path)
    assert found.startswith("packages/engine/pyproject.toml: `beam-runner-model")
    assert said in found


def test_version_bounds_of_an_extra_are_compared(tmp_path: Path) -> None:
    put(tmp_path, "model", "0.2.1")
    extra = '[project.optional-dependencies]\nmore = ["beam-runner-model>=0.1,<0.2"]\n'
    put(tmp_path, "engine", "0.2.0", more=extra)
    (found,) = find_metadata_problems(tmp_path)
    assert "refuses 0.2.1" in found


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('requires-python = ">=3.12"\n', "`requires-python` differs"),
        ('classifiers = ["Programming Language :: Python :: 3.9"]\n', "versions of Python"),
    ],
)
def test_metadata_that_differs_between_packages_is_reported(
    tmp_path: Path, more: str, said: str
) -> None:
    put(tmp_path, "engine", "0.1.0")
    put(tmp_path, "model", "0.1.0", more=more)
    (found,) = find_metadata_problems(tmp_path)
    assert said in found


def test_license_that_differs_from_the_root_license_is_reported(tmp_path: Path) -> None:
    put(tmp_path, "model", "0.1.0")
    (tmp_path / "packages/model/LICENSE").write_text("Other terms\n")
    assert list(find_metadata_problems(tmp_path)) == [
        "packages/model/LICENSE is no copy of LICENSE"
    ]


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(root), *IDENTITY, *arguments], check=True)


def release(root: Path, name: str, version: str, *needed: str) -> None:
    """Commits a version of a package, with its tag."""
    put(root, name, version, *needed)
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", f"Release {name} {version}")
    git(root, "tag", f"{name}-v{version}")


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """Returns a repository with releases of two packages, below an unreleased version."""
    git(tmp_path, "init", "-q")
    for version in ("0.1.0", "0.2.0", "0.2.10", "0.2.9"):
        release(tmp_path, "urns", version)
    release(tmp_path, "model", "0.2.0", "urns>=0.2.9,<0.3")
    put(tmp_path, "urns", "0.2.11")
    put(tmp_path, "engine", "0.2.0", "model>=0.2,<0.3")
    return tmp_path


def test_oldest_release_within_all_bounds_is_selected(released: Path) -> None:
    assert find_oldest_releases(released, "model") == {"urns": "urns-v0.2.9"}
    put(released, "engine", "0.2.0", "model>=0.2,<0.3", "urns>=0.2.10,<0.3")
    assert find_oldest_releases(released, "engine") == {"urns": "urns-v0.2.10"}


def test_package_without_an_older_release_is_omitted(released: Path) -> None:
    assert find_oldest_releases(released, "urns") == {}
    put(released, "urns", "0.2.9")
    assert find_oldest_releases(released, "engine") == {}


def test_older_release_is_unpacked_with_its_original_files(released: Path, tmp_path: Path) -> None:
    folder = unpack_release(released, "urns", "urns-v0.2.9", tmp_path / "unpacked")
    assert 'version = "0.2.9"' in (folder / "pyproject.toml").read_text()
    assert (folder / "LICENSE").exists()
