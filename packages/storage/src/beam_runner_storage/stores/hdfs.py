"""A store on HDFS, addressed by a namenode, a name service, or a mount table (``viewfs``).

The client starts threads, after which a process must not fork. So only the server and the processes
that run bundles create a client, and never the daemon that forks these processes.
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

from beam_runner_storage.stores.hdfs_calls import TimedHdfsClient
from beam_runner_storage.stores.hdfs_refusals import HdfsErrorReason, explain_error
from beam_runner_storage.stores.ports import FileStore, MissingFileError, StoreError

T = TypeVar("T")

_UNFINISHED = ".writing"
"""Name of the folder for unfinished files; a complete file is moved to its final name."""
_UNFINISHED_CHARACTERS = 200
_PIECE = 4 << 20
_AT_ONCE = 100
_FIRST_WAIT_SECONDS = 0.1
_LONGEST_WAIT_SECONDS = 2.0


class HdfsStore(FileStore):
    """Store in one HDFS folder, which also removes empty subfolders.

    Args:
        url: URL of the folder. ``core-site.xml`` and ``hdfs-site.xml`` in ``HADOOP_CONF_DIR``
            configure name services, mounts and Kerberos.
        patience: seconds after the first failure in which a request is retried.

    Raises:
        StoreError: The URL or the configuration is malformed, or the configuration lacks the name
            service.
    """

    def __init__(self, url: str, patience: float) -> None:
        parts = urlsplit(url)
        self._url = url
        self._folder = parts.path.rstrip("/")
        self._patience = patience
        try:
            self._calls = TimedHdfsClient(f"{parts.scheme}://{parts.netloc}", patience)
        except Exception as error:
            raise self._build_store_error("can't be used", explain_error(error)) from error

    def put_file(self, name: str, source: Path) -> None:
        """Uploads a file, see `FileStore.put_file`. When the method returns, HDFS has written all
        replicas of the file.
        """
        self._retry_request(
            f"failed to write {name}",
            lambda: self._write_file(name, _read_pieces(source), first=False),
        )

    def create_file(self, name: str, contents: bytes) -> bool:
        """Creates a file, see `FileStore.create_file`; readers never see a partial file."""
        return self._retry_request(
            f"failed to write {name}", lambda: self._write_file(name, (contents,), first=True)
        )

    def read_file(self, name: str) -> bytes:

        def read_whole_file() -> bytes | None:
            reader = self._open_reader(name)
            return None if reader is None else self._calls.call_with_timeout(reader.read)

        contents = self._retry_request(f"failed to read {name}", read_whole_file)
        if contents is None:
            raise MissingFileError(f"the store {self._url} has no file {name}")
        return contents

    def fetch_file_part(self, name: str, target: Path, start: int, end: int | None = None) -> int:
        size = self._retry_request(
            f"failed to read {name}", lambda: self._copy_byte_range(name, target, start, end)
        )
        if size is None:
            raise MissingFileError(
                f"{self._url} has no {name}, which was committed: another program has"
                " removed the file"
            )
        return size

    def list_names(self) -> Iterator[str]:
        """Yields the names of all files, including unfinished files of writers that have exited; see
        `FileStore.list_names`.
        """
        folders = [self._folder or "/"]
        while folders:
            folder = folders.pop()
            for found in self._retry_request(
                "failed to list its files", partial(self._list_hdfs_folder, folder)
            ):
                if found.isdir:
                    folders.append(found.path)
                else:
                    yield found.path.removeprefix(f"{self._folder}/")

    def delete_files(self, names: Iterable[str]) -> None:
        """Removes files, see `FileStore.delete_files`; sends one request per file."""
        waiting = iter(names)
        while some := list(islice(waiting, _AT_ONCE)):
            self._retry_request(
                f"failed to delete {some[0]}", lambda: self._calls(self._remove_files, some)
            )

    def delete_unfinished_files(self, prefix: str) -> None:
        start = self._get_path(_make_unfinished_name(prefix))
        found = self._retry_request(
            "failed to list its files",
            partial(self._list_hdfs_folder, self._get_path(_UNFINISHED)),
        )
        paths = [one.path for one in found if one.path.startswith(start)]
        self.delete_files(path.removeprefix(f"{self._folder}/") for path in paths)

    def _get_path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _write_file(self, name: str, pieces: Iterable[bytes], *, first: bool) -> bool:
        """Writes a file, and returns True if the file got its final name.

        With ``first``, the file doesn't replace an existing file.
        """
        part = self._get_path(f"{_make_unfinished_name(name)}.{secrets.token_hex(8)}")
        writer = self._calls(Client.create, part, WriteOptions(create_parent=True))
        for piece in pieces:
            self._calls.call_with_timeout(writer.write, piece)
        self._calls.call_with_timeout(writer.close)
        path = self._get_path(name)
        try:
            return self._rename_hdfs_file(part, path, first=first)
        except FileNotFoundError:
            # Either an earlier rename request succeeded and its response was lost, or the target
            # folder doesn't exist yet.
            if self._file_exists(path):
                return not first
        self._calls(Client.mkdirs, str(PurePosixPath(path).parent), create_parent=True)
        return self._rename_hdfs_file(part, path, first=first)

    def _rename_hdfs_file(self, part: str, path: str, *, first: bool) -> bool:
        try:
            self._calls(Client.rename, part, path, overwrite=not first)
        except FileExistsError:
            self._calls(Client.delete, part)
            return False
        return True

    def _file_exists(self, path: str) -> bool:
        try:
            self._calls(Client.get_file_info, path)
        except FileNotFoundError:
            return False
        return True

    def _open_reader(self, name: str) -> FileReader | None:
        try:
            return self._calls(Client.read, self._get_path(name))
        except FileNotFoundError:
            return None

    def _copy_byte_range(self, name: str, target: Path, start: int, end: int | None) -> int | None:
        reader = self._open_reader(name)
        if reader is None:
            return None
        size = len(reader)
        at, last = max(0, size + start) if start < 0 else start, size if end is None else end
        with target.open("r+b" if target.exists() else "w+b") as file:
            file.truncate(size)
            file.seek(at)
            while at < last:
                piece = self._calls.call_with_timeout(reader.read_range, at, min(_PIECE, last - at))
                if not piece:
                    raise EOFError(f"received {at} of {last} bytes")
                at += file.write(piece)
        return size

    def _list_hdfs_folder(self, folder: str) -> list[FileStatus]:
        try:
            return self._calls(lambda client: list(client.list_status(folder)))
        except FileNotFoundError:
            return []

    def _remove_files(self, client: Client, names: Sequence[str]) -> None:
        paths = [self._get_path(name) for name in names]
        for path in paths:
            client.delete(path)
        folders = {folder for path in paths for folder in self._list_parent_folders(path)}
        for folder in sorted(folders, key=len, reverse=True):
            # HDFS refuses to remove a folder that isn't empty.
            with contextlib.suppress(OSError, RuntimeError):
                client.delete(folder)

    def _list_parent_folders(self, path: str) -> Iterator[str]:
        for parent in map(str, PurePosixPath(path).parents):
            if parent == "/" or not f"{parent}/".startswith(f"{self._folder}/"):
                return
            yield parent

    def _retry_request(self, what: str, work: Callable[[], T]) -> T:
        """Returns the result of a request, and retries it while the failure is transient.

        Raises:
            StoreError: HDFS doesn't respond, or refuses the request.
        """
        failing: float | None = None
        wait = _FIRST_WAIT_SECONDS
        while True:
            try:
                return work()
            except Exception as error:
                found = explain_error(error)
                now = time.monotonic()
                failing = now if failing is None else failing
                if not found.is_transient or now + wait - failing > self._patience:
                    raise self._build_store_error(what, found) from error
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    def _build_store_error(self, what: str, found: HdfsErrorReason) -> StoreError:
        return StoreError(f"{self._url} {what}: {found.reason}")


def _make_unfinished_name(name: str) -> str:
    """Returns the beginning of the name of an unfinished file; HDFS limits a name to 255 bytes."""
    return f"{_UNFINISHED}/{name.replace('/', '~')[:_UNFINISHED_CHARACTERS]}"


def _read_pieces(source: Path) -> Iterator[bytes]:
    with source.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece
