"""The name of a server, which no other has: it is kept with the server's state, in a folder or in another store."""

from __future__ import annotations

import secrets

from beam_runner_storage.stores.ports import FileStore, MissingFileError

_NAME = "server-id"


def server_id(state: FileStore) -> str:
    """Returns the name of all servers that have this state, one after the other; the first one makes it.

    Raises:
        StoreError: the store does not answer, or refuses.
    """
    try:
        return state.read(_NAME).decode().strip()
    except MissingFileError:
        state.create(_NAME, f"server-{secrets.token_hex(8)}".encode())
        return state.read(_NAME).decode()
