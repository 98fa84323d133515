"""Ledgers of jobs without a server."""

from __future__ import annotations

import time
from typing import Any

from beam_runner_driver.ledger.job_folder import JobFolder
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.recovery import recover_ledger
from beam_runner_driver.ledger.scheduling import make_root_outputs
from beam_runner_engine.scheduler.events import Start
from beam_runner_engine.scheduler.policy import DefaultPolicy, SectionPolicy
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_planner.plan import JobPlan


def begin_ledger(
    journal: Any,
    plan: JobPlan,
    shards: int,
    limits: Limits,
    policy: DefaultPolicy | None = None,
    section_policy: SectionPolicy | None = None,
) -> JobLedger:
    """Returns the ledger of a new job, whose journal has the first snapshot."""
    ledger = JobLedger(plan, shards, limits, policy or DefaultPolicy(), section_policy)
    ledger.apply_journal_entry(Start(int(time.time() * 1000), make_root_outputs(plan)))
    journal.store_snapshot(ledger.encode_snapshot())
    return ledger


def open_ledger(
    journal: Any,
    files: JobFolder,
    plan: JobPlan,
    shards: int,
    limits: Limits,
    section_policy: SectionPolicy | None = None,
) -> JobLedger:
    """Returns the ledger that an earlier server left in the journal, or the ledger of a new job."""
    if not journal.exists:
        return begin_ledger(journal, plan, shards, limits, section_policy=section_policy)
    ledger = recover_ledger(journal)
    files.delete_leftovers(ledger.list_needed_files())
    return ledger
