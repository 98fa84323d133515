"""What becomes of a job whose server has ended: its ledger, made again from its journal."""

from __future__ import annotations

from collections.abc import Callable

from beam_runner_engine.scheduler.events import AttemptsLost
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_storage.journal.journal import Journal

from beam_runner_runtime.driver.kept import Kept
from beam_runner_runtime.driver.ledger import Ledger


def recover(journal: Journal, limits: Callable[[Ledger], Limits] | None = None) -> Ledger:
    """The ledger that a job's journal makes, in which all bundles that were lost with the earlier server are tried again.

    A snapshot takes that on record: the entries that follow are of these attempts.

    Args:
        journal: the job's.
        limits: gives new limits for what comes, if another version began the job.

    Raises:
        FormError: another version wrote it, and this one can't read it.
    """
    recovered = journal.recover()
    kept = Kept(recovered.snapshot or b"")
    ledger = Ledger.of_state(kept.ledger)
    for blob in recovered.entries:
        for entry in kept.entries(blob):
            ledger.apply(entry)
    if limits is not None and not kept.is_of_this_version:
        # After all entries: those were worked in by the old limits.
        ledger.limits = limits(ledger)
    ledger.apply(AttemptsLost())
    journal.snapshot(ledger.snapshot())
    return ledger
