"""Checks, before a job starts, of its options for the quarantine (files for elements that always
fail). The quarantine is the store for elements that always fail.
"""

from __future__ import annotations

from beam_runner_driver.ledger.quarantine import QuarantineSettings
from beam_runner_jobservices.errors import JobRejected
from beam_runner_model.jobs import JobSpec
from beam_runner_planner.isolation import ElementIsolation
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.quarantine_options import (
    QUARANTINE,
    QUARANTINE_ATTEMPTS,
    QUARANTINE_STEPS,
    parse_quarantine_options,
)
from beam_runner_storage.errors import StorageError
from beam_runner_storage.stores.probe import probe_store

from beam_runner_server.option_checks import parse_options
from beam_runner_server.store_urls import parse_store_url


def make_quarantine_settings(job: JobSpec) -> QuarantineSettings | None:
    """Returns the rules of a job's quarantine, or None if the job has no quarantine.

    For a new job, writes a file to the quarantine and removes it again.

    Raises:
        JobRejected: an option is invalid, or the quarantine can't be written.
    """
    options = parse_options(job, parse_quarantine_options)
    if options is None:
        return None
    spec = parse_store_url(options.url, f"--{QUARANTINE.name}")
    if not job.resumed:
        try:
            probe_store(spec)
        except (StorageError, OSError) as error:
            reason = f"Can't write to --{QUARANTINE.name}: {error}"
            raise JobRejected(reason, unsupported=False) from error
    return QuarantineSettings(
        spec, options.steps, options.attempts, options.limit, options.per_hour
    )


def make_isolation_rules(job: JobSpec) -> ElementIsolation | None:
    """Returns the rules by which worker processes isolate failing elements, or None if the job has
    no quarantine.
    """
    options = parse_options(job, parse_quarantine_options)
    return None if options is None else ElementIsolation(options.steps, QUARANTINE_STEPS.name)


def check_quarantine(job: JobSpec, plan: JobPlan, attempts: int | None) -> None:
    """Checks that a job can have a quarantine.

    Args:
        attempts: the number of failed attempts at a bundle after which the job fails; None for no
            limit.

    Raises:
        JobRejected: the job isn't a stream, or fails before an element can go to quarantine.
    """
    options = parse_options(job, parse_quarantine_options)
    if options is None:
        return
    if not plan.is_endless:
        raise JobRejected(
            f"--{QUARANTINE.name} is only for streams, and no source of this pipeline is unbounded:"
            " remove the option",
            unsupported=False,
        )
    if attempts is not None and attempts < options.attempts:
        raise JobRejected(
            f"--{QUARANTINE_ATTEMPTS.name} is {options.attempts}, but the job fails after"
            f" {attempts} failed attempts at a bundle: set --{QUARANTINE_ATTEMPTS.name} to at most"
            f" {attempts}, or raise the limit of attempts",
            unsupported=False,
        )
