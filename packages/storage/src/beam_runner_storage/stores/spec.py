"""Address of a file store, which the server sends to the workers. Credentials stay on each machine."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import attrs

from beam_runner_storage.stores.folder import FolderStore
from beam_runner_storage.stores.null_store import NullStore
from beam_runner_storage.stores.ports import FileStore, StoreError

_HDFS = ("hdfs", "viewfs")
_FOLDER = "file"
SCHEMES = ("s3", "gs", "az", "abfs", "abfss", *_HDFS, _FOLDER)
"""Supported URL schemes; ``file`` is a folder whose files are copied, like the files of other stores."""
_FORMS = {
    _FOLDER: "file:///FOLDER",
    "hdfs": "hdfs://NAMENODE:PORT/FOLDER or hdfs://NAMESERVICE/FOLDER",
    "viewfs": "viewfs://CLUSTER/FOLDER",
}
"""Expected forms of the URLs of schemes without a bucket, for error messages."""
_NOTHING = "none"
PATIENCE_SECONDS = 30.0
"""Time (s) that a bundle waits for its store, before the bundle itself is retried."""


@attrs.frozen
class StoreSpec:
    """Address of a file store: a URL, a shared folder, or none.

    Attributes:
        url: URL with a scheme and without a trailing slash; or the path of a folder that machines
            share; or "none" if machines share no storage.
        durable: whether a file in a folder must be on the disk before a commit names it; other
            stores always ensure this.
    """

    url: str
    durable: bool = False

    @property
    def accepts_files(self) -> bool:
        """Whether the store accepts files."""
        return self.url != _NOTHING

    @property
    def folder(self) -> Path | None:
        """Folder in which files are read and written in place; None if files are copied to and from the store."""
        return None if "://" in self.url or not self.accepts_files else Path(self.url)

    def with_prefix(self, name: str) -> StoreSpec:
        """Returns the address of a prefix in the store."""
        return attrs.evolve(self, url=f"{self.url}/{name}") if self.accepts_files else self

    def open_store(self, patience: float = PATIENCE_SECONDS) -> FileStore:
        """Opens the store without sending a request. A process that forks later must not call this
        method.

        Args:
            patience: seconds for which requests without a response, or with a transient error, are
                retried.

        Raises:
            StoreError: The store's library is missing, or the URL or an environment variable is
                malformed.
        """
        if not self.accepts_files:
            return NullStore()
        if self.folder is not None:
            return FolderStore(self.folder, self.url, durable=self.durable)
        parts = urlsplit(self.url)
        if parts.scheme == _FOLDER:
            return FolderStore(Path(unquote(parts.path)), self.url, durable=True)
        is_hdfs = parts.scheme in _HDFS
        try:
            if is_hdfs:
                from beam_runner_storage.stores.hdfs import HdfsStore

                return HdfsStore(self.url, patience)
            from beam_runner_storage.stores.objects import ObjectStore

            return ObjectStore(self.url, patience)
        except ImportError as error:
            extra = "hdfs" if is_hdfs else "stores"
            raise StoreError(
                f"{self.url} needs {error.name}: run pip install"
                f" 'beam-runner-storage[{extra}]' on this machine and on executors"
            ) from error


NO_STORE = StoreSpec(_NOTHING)
"""Address for machines without shared storage; data that is too large for replies fails its job."""


def parse_data_dir(text: str) -> StoreSpec:
    """Returns the store of a ``--data-dir`` value: a URL, ``none``, or the path of a folder.

    Raises:
        ValueError: The scheme is unknown, or the URL is incomplete.
    """
    if text == _NOTHING:
        return NO_STORE
    if "://" not in text:
        return StoreSpec(str(Path(text).absolute()))
    parts = urlsplit(text)
    if parts.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ValueError(
            f"{parts.scheme}:// isn't a supported data store; expected {known}, or a path"
        )
    form = _FORMS.get(parts.scheme, f"{parts.scheme}://BUCKET/PREFIX")
    # Don't repeat the URL in the error, because it contains a secret.
    if parts.password is not None:
        raise ValueError(
            f"remove the password from the URL; expected {form}: each"
            " machine has its own credentials"
        )
    if bool(parts.netloc) is (parts.scheme == "file") or parts.query or parts.fragment:
        raise ValueError(f"{text.partition('?')[0]} doesn't have the form {form}")
    return StoreSpec(text.rstrip("/"))


def parse_user_store(text: str) -> StoreSpec:
    """Returns the durable store of a folder or URL for files that users read or keep.

    Raises:
        ValueError: The scheme is unknown, the URL is incomplete, or the text is ``none``.
    """
    spec = parse_data_dir(text)
    if not spec.accepts_files:
        raise ValueError(f"{text!r} is no store; expected the path of a folder, or a URL")
    return attrs.evolve(spec, durable=True)
