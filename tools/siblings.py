"""Check of the version bounds by which our packages depend on each other, and search for the oldest permitted releases::

python -m tools.siblings    # prints bounds that contradict each other or the packages; exit status 1 if there are any
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
_SHARED = ("license", "license-files", "readme", "requires-python")
_PYTHON = "Programming Language :: Python :: 3"


@dataclass(frozen=True)
class RepositoryPackage:
    """Package of this repository.

    Attributes:
        name: name of its folder, and first part of its tags.
        project: table ``project`` of its ``pyproject.toml``.
    """

    name: str
    project: dict[str, Any]

    @property
    def distribution(self) -> str:
        return str(self.project["name"])

    @property
    def version(self) -> Version:
        return Version(self.project["version"])

    @cached_property
    def requirements(self) -> list[Requirement]:
        """All requirements of the package, including extras."""
        extras = self.project.get("optional-dependencies", {}).values()
        texts = [*self.project.get("dependencies", ()), *(one for some in extras for one in some)]
        return [Requirement(text) for text in texts]


def read_packages(root: Path) -> dict[str, RepositoryPackage]:
    """Returns our packages by the names of their distributions."""
    found: dict[str, RepositoryPackage] = {}
    for path in sorted(root.glob("packages/*/pyproject.toml")):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        found[project["name"]] = RepositoryPackage(path.parent.name, project)
    return found


def find_metadata_problems(root: Path) -> Iterator[str]:
    """Yields the bounds and other metadata of packages that contradict each other."""
    packages = read_packages(root)
    for package in packages.values():
        for needed in package.requirements:
            if needed.name in packages and not needed.extras:
                yield from _find_wrong_bounds(package, needed, packages[needed.name].version)
        yield from _find_differing_metadata(root, package, next(iter(packages.values())))


def _find_wrong_bounds(
    package: RepositoryPackage, needed: Requirement, version: Version
) -> Iterator[str]:
    """Yields the problems of the versions of our other packages that a package permits.

    A minor version is compatible with older releases of the same minor version, so the minor
    version is the upper bound.
    """
    place = f"packages/{package.name}/pyproject.toml"
    bounds = {one.operator: Version(one.version) for one in needed.specifier}
    if set(bounds) != {">=", "<"}:
        yield f"{place}: `{needed}` needs a lower and an upper bound, as in `>=0.1,<0.2`"
        return
    if not bounds[">="] <= version < bounds["<"]:
        yield f"{place}: `{needed}` refuses {version}, the version in this repository"
    elif bounds["<"] > (most := Version(f"{version.major}.{version.minor + 1}")):
        yield f"{place}: `{needed}` allows versions from {most} on, which may be incompatible"


def _find_differing_metadata(
    root: Path, package: RepositoryPackage, first: RepositoryPackage
) -> Iterator[str]:
    """Yields the metadata that differs between a package and the first package."""
    place = f"packages/{package.name}/pyproject.toml"
    for key in _SHARED:
        if package.project.get(key) != first.project.get(key):
            yield f"{place}: `{key}` differs from that of packages/{first.name}"
    ours, others = (
        [text for text in one.project.get("classifiers", ()) if text.startswith(_PYTHON)]
        for one in (package, first)
    )
    if ours != others:
        yield f"{place}: versions of Python in `classifiers` differ from those of packages/{first.name}"
    for name in package.project.get("license-files", ()):
        copy = root / "packages" / package.name / name
        if not copy.exists() or copy.read_bytes() != (root / name).read_bytes():
            yield f"packages/{package.name}/{name} is no copy of {name}"


def find_oldest_releases(root: Path, name: str) -> dict[str, str]:
    """Returns the tag of the oldest release of each sibling that a package allows, indirect ones included.

    Packages without such a release are left out, because their current version is the oldest
    permitted version.
    """
    packages = read_packages(root)
    tags = _run_git(root, "tag", "--list").decode().split()
    (package,) = (one for one in packages.values() if one.name == name)
    found: dict[str, str] = {}
    for sibling, bounds in _find_needed_siblings(package, packages).items():
        prefix = f"{packages[sibling].name}-v"
        versions = [Version(tag.removeprefix(prefix)) for tag in tags if tag.startswith(prefix)]
        allowed = sorted(one for one in versions if all(one in each.specifier for each in bounds))
        if allowed and allowed[0] < packages[sibling].version:
            found[packages[sibling].name] = f"{prefix}{allowed[0]}"
    return found


def _find_needed_siblings(
    package: RepositoryPackage, packages: dict[str, RepositoryPackage]
) -> dict[str, list[Requirement]]:
    """Returns the version bounds of each sibling that a package needs, directly or indirectly."""
    found: dict[str, list[Requirement]] = {}
    waiting, seen = [package], {package.distribution}
    while waiting:
        for needed in waiting.pop().requirements:
            if needed.name in packages:
                found.setdefault(needed.name, []).append(needed)
                if needed.name not in seen:
                    seen.add(needed.name)
                    waiting.append(packages[needed.name])
    found.pop(package.distribution, None)
    return found


def unpack_release(root: Path, name: str, tag: str, into: Path) -> Path:
    """Writes the released files of a package's folder; returns the folder."""
    packed = _run_git(root, "archive", "--format=tar", tag, f"packages/{name}", "LICENSE")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(into, filter="data")
    return into / "packages" / name


def _run_git(root: Path, *arguments: str) -> bytes:
    command = ("git", "-C", str(root), *arguments)
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout


if __name__ == "__main__":
    said = list(find_metadata_problems(ROOT))
    print(*said, sep="\n", end="\n" if said else "")
    sys.exit(1 if said else 0)
