"""Check, before a commit, that the commit doesn't send more elements to the job's quarantine than
its limits allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from beam_runner_engine.scheduler.events import BundleFailed
from beam_runner_model.quarantine import QuarantinedUnit
from beam_runner_runtime.channel.attempts import (
    BundleFailure,
    UserFailure,
    add_lane_to_failure,
)
from beam_runner_runtime.channel.messages import BundleReply

from beam_runner_driver.ledger.journal_codec import JournalEntry
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.quarantine import QuarantineSettings


def refuse_excess_units(
    settings: QuarantineSettings | None, ledger: JobLedger, entries: Sequence[JournalEntry]
) -> Sequence[JournalEntry]:
    """Returns the journal entries to commit. Replaces each reply of a bundle that would exceed a
    limit with a failure of the bundle.

    Worker processes can't check the limits alone: several bundles can quarantine units at the same
    time, and a process knows only the units that were committed before its bundle started.
    """
    if settings is None or not any(_list_quarantined_units(entries)):
        return entries
    order = settings.make_quarantine_order(ledger.quarantine, ledger.processing_time)
    room, admitted = order.room, list[JournalEntry]()
    for entry in entries:
        if isinstance(entry, BundleReply) and entry.quarantined:
            if len(entry.quarantined) > room:
                admitted.append(_make_limit_failure(entry, order.quarantine_full_reason))
                continue
            room -= len(entry.quarantined)
        admitted.append(entry)
    return admitted


def _list_quarantined_units(entries: Iterable[JournalEntry]) -> Iterable[QuarantinedUnit]:
    return (u for entry in entries if isinstance(entry, BundleReply) for u in entry.quarantined)


def _make_limit_failure(reply: BundleReply, reason: str) -> BundleFailed:
    unit = reply.quarantined[0]
    failure = UserFailure(unit.step, unit.error, unit.trace, quarantine=reason)
    return add_lane_to_failure(BundleFailure(reply.attempt, failure).to_event(), reply.place)
