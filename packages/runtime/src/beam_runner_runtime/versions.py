"""Which versions of Beam and Spark this runner was tried with, and what to say of others.

Others are not refused: most of what is used of them seldom changes, and who installs them in spite of
the package's metadata knows why.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Range:
    """The oldest and the newest minor version that was tried."""

    name: str
    oldest: tuple[int, int]
    newest: tuple[int, int]

    def remark(self, version: str) -> str | None:
        """What to say of a version, such as ``4.3.0``; None if it was tried."""
        major, minor = (int(part) for part in version.split(".")[:2])
        if self.oldest <= (major, minor) <= self.newest:
            return None
        than = "newer" if (major, minor) > self.newest else "older"
        return (
            f"{self.name} {version} is {than} than what this server was tried with, "
            f"{_text(self.oldest)} to {_text(self.newest)}: should jobs fail in a way that speaks of "
            f"neither their code nor their data, install one of these"
        )


BEAM = Range("apache-beam", (2, 72), (2, 77))
SPARK = Range("pyspark", (3, 5), (4, 3))


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
