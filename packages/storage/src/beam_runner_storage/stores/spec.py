"""Which store: a URL and a prefix in it, which travel to the workers; what credentials it takes stays on each machine."""

from __future__ import annotations

from urllib.parse import urlsplit

import attrs

from beam_runner_storage.stores.nothing import NoStore
from beam_runner_storage.stores.ports import DataStore, StateStore, StoreError

_HDFS = ("hdfs", "viewfs")
SCHEMES = ("s3", "gs", "az", "abfs", "abfss", *_HDFS, "file")
"""``file`` is a folder that is treated as a store, not as one that machines share."""
_FORMS = {
    "file": "file:///FOLDER",
    "hdfs": "hdfs://NAMENODE:PORT/FOLDER or hdfs://NAMESERVICE/FOLDER",
    "viewfs": "viewfs://CLUSTER/FOLDER",
}
"""Of URLs that name no bucket."""
_NOTHING = "none"
PATIENCE_SECONDS = 30.0
"""As long as a bundle waits for its store; it is tried again itself then."""


@attrs.frozen
class StoreSpec:
    """Where a store is.

    Attributes:
        url: with its scheme, without a slash at the end; "none" where machines share nothing.
    """

    url: str

    @property
    def keeps(self) -> bool:
        """Whether it takes anything."""
        return self.url != _NOTHING

    def within(self, name: str) -> StoreSpec:
        """The part of it that has this prefix."""
        return StoreSpec(f"{self.url}/{name}") if self.keeps else self

    def open(self, patience: float = PATIENCE_SECONDS) -> DataStore:
        """The store itself; asks it nothing yet. Not to be called where processes are forked later.

        Args:
            patience: for how many seconds it is asked again what it does not answer, or refuses for a moment.

        Raises:
            StoreError: its library is missing, or the URL or what the environment says is malformed.
        """
        return self.open_for_state(patience) if self.keeps else NoStore()

    def open_for_state(self, patience: float = PATIENCE_SECONDS) -> StateStore:
        """The same, of a store that keeps something, with what state needs beyond that.

        Raises:
            StoreError: likewise.
        """
        is_hdfs = urlsplit(self.url).scheme in _HDFS
        try:
            if is_hdfs:
                from beam_runner_storage.stores.hdfs import HdfsStore

                return HdfsStore(self.url, patience)
            from beam_runner_storage.stores.objects import ObjectStore

            return ObjectStore(self.url, patience)
        except ImportError as error:
            extra = "hdfs" if is_hdfs else "stores"
            raise StoreError(
                f"{self.url} needs {error.name}: pip install 'beam-runner-storage[{extra}]', here and where executors run"
            ) from error


NO_STORE = StoreSpec(_NOTHING)
"""Machines share nothing: what is too large to go along with replies fails its job, by name."""


def parse_data_dir(text: str) -> StoreSpec | None:
    """What ``--data-dir`` says, if it is a URL or ``none``; None if it is a path.

    Raises:
        ValueError: of a scheme that is not known, or without what it needs.
    """
    if text == _NOTHING:
        return NO_STORE
    if "://" not in text:
        return None
    parts = urlsplit(text)
    if parts.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ValueError(
            f"{parts.scheme}:// is no store of data that is known here: {known}, or a path"
        )
    form = _FORMS.get(parts.scheme, f"{parts.scheme}://BUCKET/PREFIX")
    # What is wrong may be a secret, and is not repeated.
    if parts.password is not None:
        raise ValueError(f"{form} has no password in it: credentials are those of each machine")
    if bool(parts.netloc) is (parts.scheme == "file") or parts.query or parts.fragment:
        raise ValueError(f"{text.partition('?')[0]} is not of the form {form}, and no more")
    return StoreSpec(text.rstrip("/"))
