"""The checks of watermarks in running jobs: off, but for a server that is told to make them."""

from __future__ import annotations

import os

from beam_runner_runtime.driver.ledger import Ledger

VARIABLE = "BEAM_SPARK_CHECK_WATERMARKS"
"""If not empty, a job fails if a watermark passes data that was on time; for the server."""


def are_checked() -> bool:
    """Returns whether this process is told to check watermarks."""
    return bool(os.environ.get(VARIABLE))


def first_overtaken(ledger: Ledger) -> str:
    """Returns a sentence about the first data that a watermark has overtaken since the last call.

    Empty if there is none, or if nobody looks.
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
        f"a watermark has overtaken data, which is a defect of the runner: {plan.stages[first.stage].spec.title!r}"
        f" is at {first.watermark} ms, and reads an element at {first.timestamp} ms of"
        f" {first.collection!r} (written by {', '.join(map(repr, writers))}), which was on time there"
    )
