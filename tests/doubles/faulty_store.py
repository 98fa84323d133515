"""Store in memory that several servers share, and the connection of one server, which fails at random."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs
from beam_runner_storage.stores.ports import MissingFileError, StoreError


@attrs.define(eq=False)
class MemoryStore:
    """Files by name; a ``FileStore`` that never fails."""

    files: dict[str, bytes] = attrs.field(factory=dict)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def put_file(self, name: str, source: Path) -> None:
        contents = source.read_bytes()
        with self._lock:
            self.files[name] = contents

    def create_file(self, name: str, contents: bytes) -> bool:
        with self._lock:
            return self.files.setdefault(name, contents) is contents

    def read_file(self, name: str) -> bytes:
        with self._lock:
            if name not in self.files:
                raise MissingFileError(f"there is no {name}")
            return self.files[name]

    def fetch_file(self, name: str, target: Path) -> int:
        return target.write_bytes(self.read_file(name))

    def fetch_file_part(self, name: str, target: Path, start: int, end: int | None = None) -> int:
        contents = self.read_file(name)
        at = max(0, len(contents) + start) if start < 0 else start
        with target.open("r+b" if target.exists() else "wb") as file:
            file.truncate(len(contents))
            file.seek(at)
            file.write(contents[at:end])
        return len(contents)

    def list_names(self) -> Iterator[str]:
        with self._lock:
            return iter(sorted(self.files))

    def delete_files(self, names: Iterable[str]) -> None:
        with self._lock:
            for name in names:
                self.files.pop(name, None)


@attrs.define(eq=False)
class FaultyLine:
    """Connection to a store that can lose a request or its response, or deliver a request twice."""

    store: MemoryStore
    random: random.Random
    share: float
    """Of requests that go wrong."""

    def put_file(self, name: str, source: Path) -> None:
        self._lose()
        self.store.put_file(name, source)
        self._lose()

    def create_file(self, name: str, contents: bytes) -> bool:
        self._lose()
        is_first = self.store.create_file(name, contents)
        self._lose()
        if self._is_wrong():
            # The client retries, because it got no response.
            is_first = self.store.create_file(name, contents)
        return is_first

    def read_file(self, name: str) -> bytes:
        self._lose()
        return self.store.read_file(name)

    def fetch_file(self, name: str, target: Path) -> int:
        self._lose()
        return self.store.fetch_file(name, target)

    def fetch_file_part(self, name: str, target: Path, start: int, end: int | None = None) -> int:
        self._lose()
        return self.store.fetch_file_part(name, target, start, end)

    def list_names(self) -> Iterator[str]:
        self._lose()
        return self.store.list_names()

    def delete_files(self, names: Iterable[str]) -> None:
        some = list(names)
        self._lose()
        self.store.delete_files(some[: self.random.randint(0, len(some))])
        self._lose()
        self.store.delete_files(some)

    def _is_wrong(self) -> bool:
        return self.random.random() < self.share

    def _lose(self) -> None:
        if self._is_wrong():
            raise StoreError("connection reset by peer")
