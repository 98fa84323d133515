"""The unique ID of a server, stored with the server's state in a folder or in another store."""

from __future__ import annotations

import secrets

from beam_runner_storage.stores.ports import FileStore, MissingFileError

_NAME = "server-id"


def load_server_id(state: FileStore) -> str:
    """Returns the ID that all successive servers with this state share; the first server creates
    the ID.

    Raises:
        StoreError: The store doesn't respond, or refuses.
    """
    try:
        return state.read_file(_NAME).decode().strip()
    except MissingFileError:
        state.create_file(_NAME, f"server-{secrets.token_hex(8)}".encode())
        return state.read_file(_NAME).decode()
