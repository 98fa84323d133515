"""Recovery of a job's committed state from its journal, after the loss of the server."""

from __future__ import annotations

from collections.abc import Callable

from beam_runner_engine.scheduler.events import AttemptsLost
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_storage.journal.journal import Journal

from beam_runner_driver.ledger.journal_codec import DecodedJournal
from beam_runner_driver.ledger.ledger import JobLedger


def recover_ledger(
    journal: Journal, limits: Callable[[JobLedger], Limits] | None = None
) -> JobLedger:
    """Returns the ledger (committed state) of a job from its journal, with a new attempt for each
    open bundle.

    The function writes a new snapshot, so that the journal contains the new attempts before entries
    refer to them.

    Args:
        journal: journal of the job.
        limits: function that returns new limits if another version of the runner wrote the journal;
            None to use the old limits.

    Raises:
        RecordFormatError: If another version wrote the journal, and this version can't read it.
    """
    ledger, is_of_this_version = _replay_journal(journal)
    if limits is not None and not is_of_this_version:
        # Set new limits only after the replay, because the entries were written under the old
        # limits.
        ledger.limits = limits(ledger)
    ledger.apply_journal_entry(AttemptsLost())
    journal.store_snapshot(ledger.encode_snapshot())
    return ledger


def read_ledger(journal: Journal) -> JobLedger:
    """Returns the ledger (committed state) of a job that isn't running. Doesn't change the journal.

    Raises:
        RecordFormatError: If another version wrote the journal, and this version can't read it.
    """
    return _replay_journal(journal)[0]


def _replay_journal(journal: Journal) -> tuple[JobLedger, bool]:
    """Returns the ledger, and whether this version of the runner wrote the journal."""
    recovered = journal.read_committed_data()
    kept = DecodedJournal(recovered.snapshot or b"")
    ledger = JobLedger.from_state(kept.ledger)
    for blob in recovered.entries:
        for entry in kept.decode_entries(blob):
            ledger.apply_journal_entry(entry)
    return ledger, kept.is_of_this_version
