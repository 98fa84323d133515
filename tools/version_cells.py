"""Combinations of versions (Python, Beam, PySpark) that sessions test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import nox
from packaging.requirements import Requirement
from packaging.version import Version

from tools.nox_support import PACKAGES, WHEELS, read_project_table

HEADS = ("PySpark", "Beam", "Python")


@dataclass(frozen=True)
class VersionCell:
    """Versions that run together.

    Attributes:
        pyspark: minor version such as ``3.5``; without ``lowest``, the newest patch is installed.
        beam: minor version of Beam.
        python: version of the interpreter.
        lowest: whether all dependencies have the lowest versions that our packages declare.
    """

    pyspark: str
    beam: str
    python: str
    lowest: bool = False

    @property
    def name(self) -> str:
        """Id of the nox session parameter."""
        return f"{self.pyspark}-{self.beam}-{self.python}{'-lowest' if self.lowest else ''}"

    @property
    def pyspark_version(self) -> str:
        """PySpark version in the syntax of a requirement."""
        return find_lowest_versions()["pyspark"] if self.lowest else f"{self.pyspark}.*"


# Each of the lowest and highest versions of PySpark, Beam and Python is combined with each of the others.
CELLS = (
    VersionCell("3.5", "2.72", "3.11", lowest=True),
    VersionCell("3.5", "2.72", "3.11"),
    VersionCell("3.5", "2.77", "3.13"),
    VersionCell("4.0", "2.72", "3.13"),
    VersionCell("4.0", "2.77", "3.11"),
    VersionCell("4.3", "2.72", "3.11"),
    VersionCell("4.3", "2.77", "3.13"),
    VersionCell("4.3", "2.77", "3.11"),
)
OLDEST, NEWEST = CELLS[0], CELLS[-1]

_OF_MEMORY = 0.07
"""Fraction of 3,072 MB that is about 200 MB."""
_PIPELINES = (
    *("main_classes", "grouping", "transforms", "windows", "corpus", "splittable"),
    *("tables", "sections"),
)
CHECKS = {
    "wordcount": ("tests/versions",),
    "state, timers, streams": (
        *("tests/pipelines/test_state.py", "tests/pipelines/test_streams.py", "-k", "embedded"),
    ),
    "200 MB of GroupByKey": (
        *("tests/memory/test_groups.py", "-k", "more_groups", f"--part={_OF_MEMORY}"),
    ),
    "kill and resume": ("tests/kills/test_short.py",),
    "pipelines": tuple(f"tests/pipelines/test_{name}.py" for name in _PIPELINES),
}
"""Checks of a cell: table column -> arguments of pytest."""


def find_lowest_versions() -> dict[str, str]:
    """Returns the lowest version of each distribution that all of our packages allow."""
    found: dict[str, Version] = {}
    for package in PACKAGES:
        for text in read_project_table(package)["dependencies"]:
            needed = Requirement(text)
            bounds = [Version(one.version) for one in needed.specifier if one.operator == ">="]
            here = needed.marker is None or needed.marker.evaluate()
            if bounds and here and not needed.name.startswith("beam-"):
                found[needed.name] = max([*bounds, found.get(needed.name, Version("0"))])
    return {name: str(version) for name, version in found.items()}


def install_cell(session: nox.Session, cell: VersionCell, *more: str) -> None:
    """Installs the project's wheels with the versions of one table cell, and additional
    requirements.
    """
    needed = find_lowest_versions() if cell.lowest else {"apache-beam": f"{cell.beam}.*"}
    others = [f"{name}=={version}" for name, version in needed.items() if name != "pyspark"]
    wheels = [*WHEELS.glob("beam_*.whl"), *build_pyspark_wheels(session, cell.pyspark_version)]
    session.install(*map(str, wheels), *others, *more)


def build_pyspark_wheels(session: nox.Session, *versions: str) -> list[Path]:
    """Returns the wheel of each version of PySpark, such as ``3.5.9`` or ``4.3.*``; builds missing wheels."""
    missing = [
        f"pyspark=={version}" for version in versions if not _find_existing_pyspark_wheels(version)
    ]
    if missing:
        session.install("pip", "setuptools", "wheel")
        session.run("python", "tools/pyspark_wheels.py", str(WHEELS), *missing)
    return [_find_existing_pyspark_wheels(version)[-1] for version in versions]


def _find_existing_pyspark_wheels(version: str) -> list[Path]:
    """Returns the existing wheels of a version, oldest first."""
    found = WHEELS.glob(f"pyspark-{version.removesuffix('*')}*-*.whl")
    return sorted(found, key=lambda wheel: Version(wheel.name.split("-")[1]))


def list_versions(session: nox.Session) -> tuple[str, ...]:
    """Returns the installed versions in the order of the table's first columns."""
    ask = (
        "import sys, importlib.metadata as m; "
        "print(m.version('pyspark'), m.version('apache-beam'), sys.version.split()[0])"
    )
    return tuple(str(session.run("python", "-P", "-c", ask, silent=True)).split()[-3:])
