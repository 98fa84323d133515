"""HDFS, by a namenode, a name service, or a table of mounts (``viewfs``).

A client starts threads, after which a process must not be forked: so only the server and processes that run bundles
make one, never the daemon that forks these.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import urlsplit

from hdfs_native import Client, FileReader, FileStatus, WriteOptions

from beam_runner_storage.stores.hdfs_calls import HdfsCalls
from beam_runner_storage.stores.hdfs_refusals import Refusal, refusal
from beam_runner_storage.stores.ports import FileStore, MissingFileError, StoreError

T = TypeVar("T")

_UNFINISHED = ".writing"
"""The folder of files that are being written: they get their names when they are whole."""
_PIECE = 4 << 20
_AT_ONCE = 100
_FIRST_WAIT_SECONDS = 0.1
_LONGEST_WAIT_SECONDS = 2.0


class HdfsStore(FileStore):
    """One folder. Folders that removals leave empty go, too.

    Args:
        url: of the folder. Name services, mounts and Kerberos are what ``core-site.xml`` and ``hdfs-site.xml`` in
            ``HADOOP_CONF_DIR`` say.
        patience: for how many seconds after it first failed a request is tried again.

    Raises:
        StoreError: the URL is malformed, or what is configured is, or knows nothing of it.
    """

    def __init__(self, url: str, patience: float) -> None:
        parts = urlsplit(url)
        self._url = url
        self._folder = parts.path.rstrip("/")
        self._patience = patience
        try:
            self._calls = HdfsCalls(f"{parts.scheme}://{parts.netloc}", patience)
        except Exception as error:
            raise self._error("can't be used", refusal(error)) from error

    def put(self, name: str, source: Path) -> None:
        """See `FileStore.put`; it is on as many data nodes then as HDFS keeps copies of a file."""
        self._ask(f"failed to write {name}", lambda: self._keep(name, _pieces(source), first=False))

    def create(self, name: str, contents: bytes) -> bool:
        """See `FileStore.create`; nobody sees a part of it."""
        return self._ask(
            f"failed to write {name}", lambda: self._keep(name, (contents,), first=True)
        )

    def read(self, name: str) -> bytes:

        def whole() -> bytes | None:
            reader = self._reader(name)
            return None if reader is None else self._calls.of(reader.read)

        contents = self._ask(f"failed to read {name}", whole)
        if contents is None:
            raise MissingFileError(f"{self._url} has no {name}")
        return contents

    def fetch_part(self, name: str, target: Path, start: int, end: int | None = None) -> int:
        size = self._ask(f"failed to read {name}", lambda: self._copy(name, target, start, end))
        if size is None:
            raise MissingFileError(
                f"{self._url} has no {name}, which was committed: another program has"
                " removed the file"
            )
        return size

    def names(self) -> Iterator[str]:
        """See `FileStore.names`; among them are files that are being written, or whose writer has ended before they were."""
        folders = [self._folder or "/"]
        while folders:
            folder = folders.pop()
            for found in self._ask("failed to list its files", partial(self._listed, folder)):
                if found.isdir:
                    folders.append(found.path)
                else:
                    yield found.path.removeprefix(f"{self._folder}/")

    def delete(self, names: Iterable[str]) -> None:
        """See `FileStore.delete`; it costs a request for each file."""
        waiting = iter(names)
        while some := list(islice(waiting, _AT_ONCE)):
            self._ask(f"failed to delete {some[0]}", lambda: self._calls(self._remove, some))

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _keep(self, name: str, pieces: Iterable[bytes], *, first: bool) -> bool:
        """Writes a file; whether it has its name then. One that has to be the ``first`` of this name may have none."""
        part = self._path(f"{_UNFINISHED}/{secrets.token_hex(8)}")
        writer = self._calls(Client.create, part, WriteOptions(create_parent=True))
        for piece in pieces:
            self._calls.of(writer.write, piece)
        self._calls.of(writer.close)
        path = self._path(name)
        try:
            return self._rename(part, path, first=first)
        except FileNotFoundError:
            # Either it has its name already, and the answer got lost; or the name's folder is not there yet.
            if self._is_there(path):
                return not first
        self._calls(Client.mkdirs, str(PurePosixPath(path).parent), create_parent=True)
        return self._rename(part, path, first=first)

    def _rename(self, part: str, path: str, *, first: bool) -> bool:
        try:
            self._calls(Client.rename, part, path, overwrite=not first)
        except FileExistsError:
            self._calls(Client.delete, part)
            return False
        return True

    def _is_there(self, path: str) -> bool:
        try:
            self._calls(Client.get_file_info, path)
        except FileNotFoundError:
            return False
        return True

    def _reader(self, name: str) -> FileReader | None:
        try:
            return self._calls(Client.read, self._path(name))
        except FileNotFoundError:
            return None

    def _copy(self, name: str, target: Path, start: int, end: int | None) -> int | None:
        reader = self._reader(name)
        if reader is None:
            return None
        size = len(reader)
        at, last = max(0, size + start) if start < 0 else start, size if end is None else end
        with target.open("r+b" if target.exists() else "w+b") as file:
            file.truncate(size)
            file.seek(at)
            while at < last:
                piece = self._calls.of(reader.read_range, at, min(_PIECE, last - at))
                if not piece:
                    raise EOFError(f"received {at} of {last} bytes")
                at += file.write(piece)
        return size

    def _listed(self, folder: str) -> list[FileStatus]:
        try:
            return self._calls(lambda client: list(client.list_status(folder)))
        except FileNotFoundError:
            return []

    def _remove(self, client: Client, names: Sequence[str]) -> None:
        paths = [self._path(name) for name in names]
        for path in paths:
            client.delete(path)
        folders = {folder for path in paths for folder in self._folders_of(path)}
        for folder in sorted(folders, key=len, reverse=True):
            # One that is not empty is refused.
            with contextlib.suppress(OSError, RuntimeError):
                client.delete(folder)

    def _folders_of(self, path: str) -> Iterator[str]:
        for parent in map(str, PurePosixPath(path).parents):
            if parent == "/" or not f"{parent}/".startswith(f"{self._folder}/"):
                return
            yield parent

    def _ask(self, what: str, work: Callable[[], T]) -> T:
        """What a request returns, which is tried again while it fails for reasons that pass.

        Raises:
            StoreError: HDFS does not answer, or refuses.
        """
        failing: float | None = None
        wait = _FIRST_WAIT_SECONDS
        while True:
            try:
                return work()
            except Exception as error:
                found = refusal(error)
                now = time.monotonic()
                failing = now if failing is None else failing
                if not found.passes or now + wait - failing > self._patience:
                    raise self._error(what, found) from error
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    def _error(self, what: str, found: Refusal) -> StoreError:
        return StoreError(f"{self._url} {what}: {found.reason}")


def _pieces(source: Path) -> Iterator[bytes]:
    with source.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece
