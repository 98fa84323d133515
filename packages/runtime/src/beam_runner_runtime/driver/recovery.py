"""Recovery of a job after the loss of its server: replay of the journal."""

from __future__ import annotations

from collections.abc import Callable

from beam_runner_engine.scheduler.events import AttemptsLost
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_storage.journal.journal import Journal

from beam_runner_runtime.driver.journal_codec import DecodedJournal
from beam_runner_runtime.driver.ledger import JobLedger


def recover_ledger(
    journal: Journal, limits: Callable[[JobLedger], Limits] | None = None
) -> JobLedger:
    """Returns the ledger from a job's journal. Retries all bundles that were lost with the earlier
    server.

    A new snapshot records the retries, because the entries that follow belong to the new attempts.

    Args:
        journal: journal of the job.
        limits: function that returns new limits if another version started the job; None keeps the
            limits.

    Raises:
        RecordFormatError: If another version wrote the journal, and this version can't read it.
    """
    recovered = journal.read_committed_data()
    kept = DecodedJournal(recovered.snapshot or b"")
    ledger = JobLedger.from_state(kept.ledger)
    for blob in recovered.entries:
        for entry in kept.decode_entries(blob):
            ledger.apply_entry(entry)
    if limits is not None and not kept.is_of_this_version:
        # Set new limits only after the replay, because the entries were written under the old
        # limits.
        ledger.limits = limits(ledger)
    ledger.apply_entry(AttemptsLost())
    journal.store_snapshot(ledger.encode_snapshot())
    return ledger
