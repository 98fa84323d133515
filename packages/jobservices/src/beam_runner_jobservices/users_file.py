"""The file of a server's users, which the server reads again when the file changes."""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import threading
from pathlib import Path

from beam_runner_jobservices.errors import JobServicesError
from beam_runner_jobservices.users import Quota, Right, User, hash_token, parse_users

_LOGGER = logging.getLogger(__name__)

_Version = tuple[int, int, int]
"""Modification time, size and inode number of a file, by which a new version of the file is detected."""


class UsersFile:
    """The users in a file. Thread-safe.

    Each call uses the current content of the file. If the file can't be read or is malformed, the
    last valid content stays in effect, and the server logs one warning per version of the file.

    Attributes:
        path: the path of the file.
        local_token: a token for programs in the server's process, with all rights and without a name.

    Raises:
        JobServicesError: the file can't be read, or is malformed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.local_token = secrets.token_urlsafe(32)
        self._local = User("", frozenset(Right), hash_token(self.local_token))
        self._lock = threading.Lock()
        self._version = self._get_file_version()
        self._users = self._read_users()

    def find_user(self, token: str) -> User | None:
        """Returns the user of a token; None if the token is unknown. The run time of this method
        doesn't depend on the token.
        """
        sha256 = hash_token(token)
        found = None
        for user in (self._local, *self._get_current_users()):
            if hmac.compare_digest(sha256, user.token_sha256):
                found = user
        return found

    def find_quota(self, name: str) -> Quota:
        """Returns the quota of a user.

        Jobs without a user have no limit. The jobs of a user that the file no longer contains run
        one after another.
        """
        quotas = {user.name: user.quota for user in self._get_current_users()}
        return quotas.get(name, Quota(running=1)) if name else Quota()

    def _get_current_users(self) -> tuple[User, ...]:
        with self._lock:
            version = self._get_file_version()
            if version != self._version:
                self._version = version
                try:
                    self._users = self._read_users()
                except JobServicesError as error:
                    _LOGGER.warning("The last valid users and rights stay in effect: %s", error)
                else:
                    _LOGGER.info("read %s again: %d users", self.path, len(self._users))
            return self._users

    def _get_file_version(self) -> _Version | None:
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read_users(self) -> tuple[User, ...]:
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise JobServicesError(f"Can't read {self.path}: {error.strerror}") from error
        return parse_users(self.path, content)
