"""Object stores: S3, Google Cloud Storage and Azure.

The library starts threads at its first request, after which a process must not fork. So only the
server and the processes that run bundles use it, and never the daemon that forks these processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError
from obstore.store import from_url

from beam_runner_storage.stores.ports import FileStore, MissingFileError, StoreError

if TYPE_CHECKING:  # the library defines these names only for type checkers
    from obstore import GetResult, OffsetRange
    from obstore.store import RetryConfig

_AT_ONCE = 1000
_PIECE = 4 << 20
_RETRIES = 1000
"""Number of retries, high enough that only the time limit applies: retry delays are random, and ten
retries can take one second.
"""
_PARTS_AT_ONCE = 12
_METADATA_SERVICES = ("169.254.169.254", "169.254.170.2", "metadata.google.internal")
"""Hosts of cloud metadata services, from which clients request credentials if no other source has any."""
_FOREIGN = "the credentials in the environment belong to another store"
_REMEDIES = {
    "AccessDenied": (
        "the credentials need permission to write, read, list and delete below this prefix"
    ),
    "ExpiredToken": "get new credentials",
    "InvalidAccessKeyId": _FOREIGN,
    "NoSuchBucket": "create the bucket, or set --data-dir to another bucket",
    "RequestTimeTooSkewed": "set the clock of this machine",
    "SignatureDoesNotMatch": _FOREIGN,
}
"""Fixes for the user, by error code of stores with the S3 protocol."""


class ObjectStore(FileStore):
    """Store in one prefix of a bucket.

    Args:
        url: URL of the prefix. The cloud's environment variables, files and services (``AWS_*``,
            ``GOOGLE_*``, ``AZURE_*``) configure the region, endpoint and credentials.
        patience: seconds for which a failing request is retried.

    Raises:
        StoreError: The URL or an environment variable is malformed.
    """

    def __init__(self, url: str, patience: float) -> None:
        self._url = url
        retries: RetryConfig = {
            "max_retries": _RETRIES,
            "retry_timeout": timedelta(seconds=patience),
        }
        self._parts = _PARTS_AT_ONCE
        try:
            self._store = from_url(url, retry_config=retries)
        except (BaseError, OSError, ValueError) as error:
            raise self._build_store_error("can't be used", error) from error

    def put_file(self, name: str, source: Path) -> None:
        """Uploads a file, see `FileStore.put_file`; splits a large file into parts.

        Concurrent parts share a slow connection, and the library limits each of them to 30 seconds.
        So after a failure parts are sent one by one. After each success the concurrency doubles.
        """
        try:
            obstore.put(self._store, name, source, max_concurrency=self._parts)
        except (BaseError, OSError) as error:
            self._parts = 1
            raise self._build_store_error(f"failed to write {name}", error) from error
        self._parts = min(_PARTS_AT_ONCE, 2 * self._parts)

    def create_file(self, name: str, contents: bytes) -> bool:
        """Creates a file, see `FileStore.create_file`.

        The file isn't split, because stores differ in which of several multipart uploads is the
        first.
        """
        try:
            obstore.put(self._store, name, contents, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        except (BaseError, OSError) as error:
            raise self._build_store_error(f"failed to write {name}", error) from error
        return True

    def read_file(self, name: str) -> bytes:
        try:
            return bytes(obstore.get(self._store, name).bytes())
        except FileNotFoundError as error:
            raise MissingFileError(f"{self._url} has no {name}") from error
        except (BaseError, OSError) as error:
            raise self._build_store_error(f"failed to read {name}", error) from error

    def fetch_file_part(self, name: str, target: Path, start: int, end: int | None = None) -> int:
        try:
            found = self._request_range(name, start, end)
            size: int = found.meta["size"]
            at, wanted = found.range
            with target.open("r+b" if target.exists() else "w+b") as file:
                file.truncate(size)
                file.seek(at)
                self._write_response(found, name, file, wanted)
                came = file.tell()
        except FileNotFoundError as error:
            raise MissingFileError(
                f"{self._url} has no {name}, which was committed: another program, or a"
                " lifecycle rule of the bucket, has removed the object"
            ) from error
        except (BaseError, OSError) as error:
            raise self._build_store_error(f"failed to read {name}", error) from error
        if came != wanted:
            raise StoreError(
                f"{self._url} returned {came - at} bytes of {name}; expected {wanted - at}"
            )
        return size

    def _write_response(self, found: GetResult, name: str, file: IO[bytes], end: int) -> None:
        """Writes a response to a file, up to the position ``end``.

        The library limits a request to 30 seconds. A large file takes longer on a slow connection.
        So the method requests the remainder as long as each response contains some bytes.
        """
        while True:
            start = file.tell()
            try:
                for piece in found.stream(min_chunk_size=_PIECE):
                    file.write(piece)
                return
            except BaseError:
                if not start < file.tell() < end:
                    raise
            found = self._request_range(name, file.tell(), end)

    def list_names(self) -> Iterator[str]:
        try:
            for page in obstore.list(self._store, chunk_size=_AT_ONCE):
                yield from (found["path"] for found in page)
        except (BaseError, OSError) as error:
            raise self._build_store_error(
                "failed to list the objects of the bucket", error
            ) from error

    def delete_files(self, names: Iterable[str]) -> None:
        waiting = iter(names)
        while some := list(islice(waiting, _AT_ONCE)):
            self._delete_objects(some)

    def delete_unfinished_files(self, prefix: str) -> None:
        """Does nothing, because an object appears only when it is complete."""

    def _request_range(self, name: str, start: int, end: int | None) -> GetResult:
        """Requests a range of bytes of a file; a negative start counts from the end of the file."""
        if start == 0 and end is None:
            return obstore.get(self._store, name)
        if start >= 0:
            here: tuple[int, int] | OffsetRange = {"offset": start} if end is None else (start, end)
            return obstore.get(self._store, name, options={"range": here})
        try:
            return obstore.get(self._store, name, options={"range": {"suffix": -start}})
        except NotSupportedError:  # Azure doesn't support suffix ranges
            size: int = obstore.head(self._store, name)["size"]
            return obstore.get(self._store, name, options={"range": (max(0, size + start), size)})

    def _delete_objects(self, names: list[str]) -> None:
        try:
            obstore.delete(self._store, names)
        except FileNotFoundError:
            # The store's answer doesn't name the missing file, and the store may not have removed
            # the other files. Remove each file by a separate request.
            if len(names) > 1:
                for name in names:
                    self._delete_objects([name])
        except (BaseError, OSError) as error:
            raise self._build_store_error(f"failed to delete {names[0]}", error) from error

    def _build_store_error(self, what: str, error: Exception) -> StoreError:
        return StoreError(f"{self._url} {what}: {_extract_reason(error)}")


def _extract_reason(error: Exception) -> str:
    """Returns the reason of an error in one line, without the library's pages of internal details."""
    text = str(error).split("\n\nDebug source", 1)[0].strip()
    told = re.search(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", text, re.DOTALL)
    if told:
        said = f"{told[1]}: {told[2].rstrip('.')}"
        return f"{said}; {_REMEDIES[told[1]]}" if told[1] in _REMEDIES else said
    line = re.sub(r", max_retries: \d+, retry_timeout: \S+ ", "", text.split("\n", 1)[0])
    first = f"{type(error).__name__}: {line}"
    if any(host in text for host in _METADATA_SERVICES):
        return f"no credentials are in the environment, and the machine has no role ({first})"
    return first
