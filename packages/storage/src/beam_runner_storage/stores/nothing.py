"""The store of those who have none: nothing is in it, and what is put there is refused in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from beam_runner_storage.stores.ports import MissingFileError, NoPlaceError


class NoStore:
    """Where machines share nothing, data goes along with replies as far as it is little (`DataStore`)."""

    def put(self, name: str, source: Path) -> None:
        """Refuses.

        Raises:
            NoPlaceError: always.
        """
        size = f"{source.stat().st_size:,} bytes"
        raise NoPlaceError(f"{size} are too much to go along with what a bundle reports")

    def fetch(self, name: str, target: Path) -> int:
        """There is nothing.

        Raises:
            MissingFileError: always.
        """
        raise MissingFileError(f"there is no store that could have {name}")

    def fetch_part(self, name: str, target: Path, start: int, end: int | None = None) -> int:
        """There is nothing.

        Raises:
            MissingFileError: always.
        """
        raise MissingFileError(f"there is no store that could have {name}")

    def names(self) -> Iterator[str]:
        """None."""
        return iter(())

    def delete(self, names: Iterable[str]) -> None:
        """Nothing is there to be removed."""
