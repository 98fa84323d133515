"""Versions of Beam and Spark that this runner was tested with, and a warning for other versions.

The runner accepts other versions, because most of the interfaces that it uses seldom change. A user
who overrides the package's dependencies selects such a version on purpose.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class TestedVersions:
    """Range of minor versions of a package that this runner was tested with."""

    name: str
    oldest: tuple[int, int]
    newest: tuple[int, int]

    def describe_untested_version(self, version: str) -> str | None:
        """Returns a warning for an untested version, such as ``4.3.0``; None for a tested version."""
        major, minor = (int(part) for part in version.split(".")[:2])
        if self.oldest <= (major, minor) <= self.newest:
            return None
        than = "newer" if (major, minor) > self.newest else "older"
        return (
            f"{self.name} {version} is {than} than the tested versions,"
            f" {_format_version(self.oldest)} to {_format_version(self.newest)}: if jobs fail with errors"
            " that concern neither their code nor their data, install a tested version"
        )


BEAM = TestedVersions("apache-beam", (2, 72), (2, 77))
SPARK = TestedVersions("pyspark", (3, 5), (4, 3))


def _format_version(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
