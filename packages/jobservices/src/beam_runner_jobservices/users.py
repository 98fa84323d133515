"""Parser of the file with a server's users: their tokens, rights and quotas."""

from __future__ import annotations

import enum
import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from beam_runner_jobservices.errors import JobServicesError

SHORTEST_TOKEN = 16
_LONGEST_NAME = 100
_KEYS = ("token", "token_sha256", "rights", "jobs", "running_jobs", "waiting_jobs", "cores")
_OWN, _ALL = "own", "all"


class Right(enum.StrEnum):
    """A right of a user, which covers all jobs of the server or the user's own jobs."""

    SUBMIT = "submit"
    READ = "read"
    CANCEL = "cancel"


@attrs.frozen
class Quota:
    """The largest numbers of running jobs, waiting jobs and cores; None is without limit.

    The running jobs share the cores.
    """

    running: int | None = None
    waiting: int | None = None
    cores: int | None = None


@attrs.frozen
class User:
    """User of the server: rights, quota, and the SHA-256 hash of the user's token.

    Attributes:
        sees_all_jobs: whether the rights cover all jobs of the server, and not only the user's own jobs.
    """

    name: str
    rights: frozenset[Right]
    token_sha256: bytes = attrs.field(repr=False)
    quota: Quota = attrs.field(factory=Quota)
    sees_all_jobs: bool = True


def is_valid_token(token: str) -> bool:
    """Returns whether a token is long enough to be secret, and fits into the metadata of a call."""
    return len(token) >= SHORTEST_TOKEN and token.isascii() and token.isprintable()


def hash_token(token: str) -> bytes:
    """Returns the hash by which the server identifies the token's user."""
    return hashlib.sha256(token.encode()).digest()


def parse_users(path: Path, content: bytes) -> tuple[User, ...]:
    """Reads the users from a file: JSON if the file's name ends with `.json`, otherwise TOML.

    Raises:
        JobServicesError: the content is malformed. The text has no token.
    """
    try:
        text = content.decode()
        found = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        # The text of a decoding error quotes the content, which includes tokens.
        reason = "it isn't UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise JobServicesError(f"{path} isn't valid {kind}: {reason}") from None
    match found:
        case {"users": dict(tables), **rest} if tables and not rest:
            users = tuple(
                _UserReader(path, name, table).read_user() for name, table in tables.items()
            )
        case _:
            raise JobServicesError(
                f"{path} must contain one table `users` with at least one user, and nothing else"
            )
    hashes: dict[bytes, str] = {}
    for user in users:
        other = hashes.setdefault(user.token_sha256, user.name)
        if other != user.name:
            raise JobServicesError(
                f"{path}: the users {other!r} and {user.name!r} have the same token; give each"
                " user a token"
            )
    return users


@attrs.frozen
class _UserReader:
    """A reader of one user's table. Its errors name the file, the user and the key."""

    path: Path
    name: str
    table: Any = attrs.field(repr=False)

    def read_user(self) -> User:
        name = self.name
        if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
            raise self._make_error(f"expected a name of 1 to {_LONGEST_NAME} printable characters")
        if not isinstance(self.table, Mapping):
            raise self._make_error("expected a table (in JSON: an object)")
        for key in self.table:
            if key not in _KEYS:
                raise self._make_error(f"unknown key {key!r}; the keys are {', '.join(_KEYS)}")
        jobs = self.table.get("jobs", _ALL)
        if jobs not in (_OWN, _ALL):
            raise self._make_error(f"`jobs` must be {_OWN!r} or {_ALL!r}")
        return User(
            name, self._read_rights(), self._read_token_hash(), self._read_quota(), jobs == _ALL
        )

    def _read_quota(self) -> Quota:
        running, waiting = (
            self._read_number("running_jobs", 1),
            self._read_number("waiting_jobs", 0),
        )
        cores = self._read_number("cores", 1)
        if cores is not None:
            # Each running job uses at least one core.
            running = cores if running is None else running
            if running > cores:
                raise self._make_error("`running_jobs` must not exceed `cores`")
        if running is None and waiting is not None:
            raise self._make_error("`waiting_jobs` needs `running_jobs` or `cores`")
        return Quota(running, waiting, cores)

    def _read_number(self, key: str, least: int) -> int | None:
        number = self.table.get(key)
        if number is None or (type(number) is int and number >= least):
            return number
        raise self._make_error(f"`{key}` must be a whole number of {least} or more")

    def _read_rights(self) -> frozenset[Right]:
        names = self.table.get("rights")
        every = ", ".join(Right)
        if not isinstance(names, list) or not names:
            raise self._make_error(f"`rights` must be a list of some of {every}")
        for name in names:
            if name not in tuple(Right):
                raise self._make_error(f"unknown right {name!r}; the rights are {every}")
        return frozenset(map(Right, names))

    def _read_token_hash(self) -> bytes:
        token, sha256 = self.table.get("token"), self.table.get("token_sha256")
        if (token is None) == (sha256 is None):
            raise self._make_error("set either `token` or `token_sha256`")
        if token is not None:
            if not isinstance(token, str) or not is_valid_token(token):
                raise self._make_error(
                    f"`token` must have {SHORTEST_TOKEN} or more printable ASCII characters, such"
                    " as the output of `openssl rand -hex 32`"
                )
            return hash_token(token)
        if (
            not isinstance(sha256, str)
            or not _can_convert_text(bytes.fromhex, sha256)
            or len(sha256) != 64
        ):
            raise self._make_error("`token_sha256` must have 64 hexadecimal digits")
        return bytes.fromhex(sha256)

    def _make_error(self, reason: str) -> JobServicesError:
        return JobServicesError(f"{self.path}: user {self.name[:_LONGEST_NAME]!r}: {reason}")


def _can_convert_text(convert: Callable[[str], object], text: str) -> bool:
    try:
        convert(text)
    except ValueError:
        return False
    return True
