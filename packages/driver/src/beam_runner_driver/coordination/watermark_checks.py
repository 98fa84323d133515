"""Watermark checks in running jobs, disabled unless an environment variable enables them."""

from __future__ import annotations

import os

from beam_runner_driver.ledger.ledger import JobLedger

VARIABLE = "BEAM_SPARK_CHECK_WATERMARKS"
"""If not empty for a server, a job fails when a watermark passes data that isn't processed yet."""


def are_watermark_checks_enabled() -> bool:
    """Returns whether watermark checks are enabled in this process."""
    return bool(os.environ.get(VARIABLE))


def find_data_passed_by_watermark(ledger: JobLedger) -> str:
    """Returns a sentence about the first unprocessed data that became late, because a watermark
    passed its timestamp since the last call.

    Returns "" if no data became late, or if the checks are disabled.
    """
    if ledger.watch is None:
        return ""
    found = ledger.watch.take_violations()
    if not found:
        return ""
    first, plan = found[0], ledger.plan
    writers = [
        stage.spec.title
        for stage in plan.stages.values()
        if first.collection in stage.outputs.values()
    ]
    return (
        "defect of the runner: a watermark has overtaken data."
        f" {plan.stages[first.stage].spec.title!r} has the watermark {first.watermark}"
        f" ms, and reads an element with timestamp {first.timestamp} ms from"
        f" {first.collection!r} (written by {', '.join(map(repr, writers))}), which was"
        " on time in that collection"
    )
