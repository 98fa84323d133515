"""Address of a store, which travels to the workers. Credentials stay on each machine."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import attrs

from beam_runner_storage.stores.folder import FolderStore
from beam_runner_storage.stores.nothing import NoStore
from beam_runner_storage.stores.ports import FileStore, StoreError

_HDFS = ("hdfs", "viewfs")
_FOLDER = "file"
SCHEMES = ("s3", "gs", "az", "abfs", "abfss", *_HDFS, _FOLDER)
"""``file`` is a folder whose files are copied, as those of any other store."""
_FORMS = {
    _FOLDER: "file:///FOLDER",
    "hdfs": "hdfs://NAMENODE:PORT/FOLDER or hdfs://NAMESERVICE/FOLDER",
    "viewfs": "viewfs://CLUSTER/FOLDER",
}
"""Of URLs that name no bucket."""
_NOTHING = "none"
PATIENCE_SECONDS = 30.0
"""As long as a bundle waits for its store; it is tried again itself then."""


@attrs.frozen
class StoreSpec:
    """Address of a store.

    Attributes:
        url: with its scheme, without a slash at the end; the path of a folder that machines share; or "none" where
            machines share nothing.
        durable: whether a file of a folder must be on the disk before a commit names it. Other stores always see to it.
    """

    url: str
    durable: bool = False

    @property
    def keeps(self) -> bool:
        """Whether it takes anything."""
        return self.url != _NOTHING

    @property
    def folder(self) -> Path | None:
        """The folder in which files are read and written in place; None if files are copied to and from the store."""
        return None if "://" in self.url or not self.keeps else Path(self.url)

    def within(self, name: str) -> StoreSpec:
        """The part of it that has this prefix."""
        return attrs.evolve(self, url=f"{self.url}/{name}") if self.keeps else self

    def open(self, patience: float = PATIENCE_SECONDS) -> FileStore:
        """The store itself; asks it nothing yet. Not to be called where processes are forked later.

        Args:
            patience: for how many seconds it is asked again what it does not answer, or refuses for a moment.

        Raises:
            StoreError: its library is missing, or the URL or what the environment says is malformed.
        """
        if not self.keeps:
            return NoStore()
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
"""Machines share nothing: what is too large to go along with replies fails its job, by name."""


def parse_data_dir(text: str) -> StoreSpec:
    """Returns the store that ``--data-dir`` names: by a URL, by ``none``, or by the path of a folder.

    Raises:
        ValueError: of a scheme that is not known, or without what it needs.
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
    # What is wrong may be a secret, and is not repeated.
    if parts.password is not None:
        raise ValueError(
            f"remove the password from the URL; expected {form}: each"
            " machine has its own credentials"
        )
    if bool(parts.netloc) is (parts.scheme == "file") or parts.query or parts.fragment:
        raise ValueError(f"{text.partition('?')[0]} doesn't have the form {form}")
    return StoreSpec(text.rstrip("/"))
