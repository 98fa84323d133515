"""A file store in a local or shared folder."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from beam_runner_storage.durable.folders import sync_files, sync_folder
from beam_runner_storage.stores.ports import FileStore, MissingFileError, StoreError

_PIECE = 4 << 20
_RANDOM_BYTES = 8
"""Number of random bytes in the name of an unfinished file."""


class FolderStore(FileStore):
    """Store of files in a folder, in which a file's name is its path in the folder.

    Args:
        folder: the folder, created with the first file.
        url: name of the store in errors.
        durable: whether `put_file` and `create_file` return only after the file is on the disk.
    """

    def __init__(self, folder: Path, url: str, *, durable: bool) -> None:
        self._folder = folder
        self._url = url
        self._durable = durable

    def put_file(self, name: str, source: Path) -> None:
        self._write_file(name, lambda part: shutil.copyfile(source, part), os.replace)

    def create_file(self, name: str, contents: bytes) -> bool:
        return self._write_file(name, lambda part: part.write_bytes(contents), os.link)

    def read_file(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError as error:
            raise MissingFileError(f"{self._url} has no {name}") from error
        except OSError as error:
            raise self._build_store_error(f"failed to read {name}", error) from error

    def fetch_file_part(self, name: str, target: Path, start: int, end: int | None = None) -> int:
        try:
            with (
                (self._folder / name).open("rb") as source,
                target.open("r+b" if target.exists() else "w+b") as copy,
            ):
                size = os.fstat(source.fileno()).st_size
                at = max(0, size + start) if start < 0 else start
                copy.truncate(size)
                source.seek(at)
                copy.seek(at)
                left = (size if end is None else end) - at
                while piece := source.read(min(left, _PIECE)):
                    left -= copy.write(piece)
        except FileNotFoundError as error:
            raise MissingFileError(f"{self._url} has no {name}") from error
        except OSError as error:
            raise self._build_store_error(f"failed to read {name}", error) from error
        return size

    def list_names(self) -> Iterator[str]:
        """Yields the names of all files, including unfinished files; see `FileStore.list_names`."""
        for place, folders, files in os.walk(self._folder, onerror=self._handle_listing_error):
            links = [name for name in folders if Path(place, name).is_symlink()]
            yield from (str(Path(place, name).relative_to(self._folder)) for name in files + links)

    def delete_files(self, names: Iterable[str]) -> None:
        """Removes files, see `FileStore.delete_files`; if a removal fails, removes the other files anyway."""
        failed: tuple[str, OSError] | None = None
        for name in names:
            try:
                (self._folder / name).unlink(missing_ok=True)
            except OSError as error:
                failed = name, error
        if failed is not None:
            raise self._build_store_error(f"failed to delete {failed[0]}", failed[1]) from failed[1]

    def delete_unfinished_files(self, prefix: str) -> None:
        path = self._folder / prefix
        unfinished = re.compile(rf"\.{re.escape(path.name)}.*\.[0-9a-f]{{{2 * _RANDOM_BYTES}}}")
        folder = path.parent.relative_to(self._folder)
        try:
            names = [file.name for file in path.parent.iterdir() if unfinished.fullmatch(file.name)]
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._build_store_error(
                "failed to list the files of the folder", error
            ) from error
        self.delete_files(str(folder / name) for name in names)

    def _write_file(
        self,
        name: str,
        write: Callable[[Path], object],
        give_name: Callable[[Path, Path], None],
    ) -> bool:
        """Writes a temporary file and renames it to its final name.

        Returns False if a file of the final name exists and must not be replaced.
        """
        path = self._folder / name
        part = path.with_name(f".{path.name}.{secrets.token_hex(_RANDOM_BYTES)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                write(part)
                if self._durable:
                    sync_files([part])
                try:
                    give_name(part, path)
                except FileExistsError:
                    return False
            finally:
                part.unlink(missing_ok=True)
            if self._durable:
                sync_folder(path.parent)
        except OSError as error:
            raise self._build_store_error(f"failed to write {name}", error) from error
        return True

    def _handle_listing_error(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise self._build_store_error(
                "failed to list the files of the folder", error
            ) from error

    def _build_store_error(self, what: str, error: OSError) -> StoreError:
        return StoreError(f"{self._url} {what}: {error.strerror or error}")
