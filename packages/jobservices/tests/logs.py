"""In-memory transaction log and files, which outlive a machine in tests."""

from __future__ import annotations

import secrets

import attrs
from beam_runner_model.errors import Unavailable
from beam_runner_storage.durable.logged import LogFailed, LogUnavailable


@attrs.define(eq=False)
class MemoryLog:
    """A `TransactionLog` in memory. After `failure` is set, it accepts no further transaction. While
    `outage` is set, transactions wait in the queue.
    """

    base: bytes | None = None
    transactions: list = attrs.field(factory=list)
    failure: str = ""
    outage: str = ""
    copies: int = 0
    each: int = 1000
    """Number of transactions after which a snapshot is due."""
    durable: int = 0

    def take_over_log(self, path):
        if self.base is not None:
            path.write_bytes(self.base)
        return self.transactions[: self.durable] if self.failure else self.transactions

    def start_log(self, copy):
        self.queue_copy_upload(copy)

    def add_transaction(self, transaction):
        self.transactions.append(transaction)
        return len(self.transactions) >= self.each

    def queue_copy_upload(self, copy):
        self.copies += 1
        self.base = copy.read_bytes()
        copy.unlink()
        self.transactions, self.durable = [], 0

    def wait_until_durable(self, seconds=None):
        if self.failure:
            raise LogFailed(self.failure)
        if self.outage:
            assert seconds is not None, "the wait has no limit"
            raise LogUnavailable("the state store", self.outage)
        self.durable = len(self.transactions)


@attrs.define(eq=False, slots=False)
class MemoryFiles:
    """A `RemoteFiles` store in memory."""

    files: dict = attrs.field(factory=dict)
    refuses: bool = False

    def put(self, sha256, file):
        if self.refuses:
            raise Unavailable("no")
        name = f"{sha256}/{secrets.token_hex(4)}"
        self.files[name] = file.read_bytes()
        return name

    def fetch(self, name, target):
        target.write_bytes(self.files[name])

    def names(self):
        return {name: name.partition("/")[0] for name in self.files}

    def delete(self, names):
        for name in list(names):
            del self.files[name]
