"""Splits of a running bundle, either between two elements or within the current element."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

from apache_beam.runners import sdf_utils
from apache_beam.runners.worker import operations
from beam_runner_model.bundles import BundleSplit, ResidualElement
from beam_runner_worker.errors import BundleError, HarnessError

from beam_runner_embedded.claims import ClaimPosition
from beam_runner_embedded.failures import describe_exception
from beam_runner_embedded.runs import is_user_code_error
from beam_runner_embedded.source import ChunkSource

_UNKNOWN_PROGRESS = 0.5
"""Assumed completed fraction of an element whose restriction tracker doesn't report progress."""


def split_bundle(
    source: ChunkSource, keep: float, elements: int, points: Sequence[int] = ()
) -> BundleSplit | None:
    """Splits a running bundle: removes part of its unprocessed input, and returns the split. Any
    thread may call it.

    The unprocessed input is measured in elements, with a fraction for the current element. The
    bundle retains the fraction ``keep`` of this input. If the retained part ends within the current
    element, the function tries to split the element. Otherwise, the function splits at the nearest
    element boundary.

    If user code fails while it splits its restriction, the removed part is unknown, so the bundle
    fails.

    Args:
        keep: as in :meth:`~beam_runner_worker.ports.StageHarness.split`.
        elements: total number of input elements of the bundle.
        points: allowed split points; see :meth:`~beam_runner_worker.ports.StageHarness.split`.
    """
    with source.claims.pause_claims() as held:
        current = held.claimed - 1
        total = max(elements, held.announced)
        if held.stop is not None:
            total = min(total, held.stop)
        done = _get_current_fraction(source, held)
        kept = keep * (total - current - done)
        if done < 1 and kept < 1 - done and not points:
            split = _split_current_element(source, held, kept / (1 - done))
            if split is not None or source.failed_split is not None:
                return split
        first_residual = current + max(1, round(done + kept))
        if points:
            free = (point for point in points if point > current)
            first_residual = min(free, key=lambda p: abs(p - first_residual), default=total)
        if first_residual >= total:
            return None
        held.stop = first_residual
        return BundleSplit(first_residual - 1, first_residual)


def create_residual(
    source: ChunkSource, op: operations.Operation, residual: sdf_utils.SplitResultResidual
) -> ResidualElement:
    """Returns the unprocessed part of an element of a splittable DoFn as an element of the stage's
    input.

    Raises:
        HarnessError: the operation doesn't read the stage's input directly.
    """
    if op not in source.targets:
        raise HarnessError(
            f"{op.name_context.step_name} returned an unprocessed part of an element,"
            " which can't be resumed, because the step doesn't read the input of the"
            " stage"
        )
    delay, watermark = residual.deferred_timestamp, residual.current_watermark
    return ResidualElement(
        element=source.encode(residual.residual_value),
        # Round up to ms, so that the work doesn't resume too early. A delay in the past becomes 0.
        delay_ms=0 if delay is None else max(0, -(-delay.micros // 1000)),
        watermark=None if watermark is None else watermark.micros // 1000,
    )


def _get_current_fraction(source: ChunkSource, held: ClaimPosition) -> float:
    """Returns the completed fraction of the last claimed element; 1 if the element is finished."""
    if held.claimed == 0 or not source.feeding:
        return 1.0
    progress = source.get_current_progress()
    return _UNKNOWN_PROGRESS if progress is None else progress


def _split_current_element(
    source: ChunkSource, held: ClaimPosition, keep: float
) -> BundleSplit | None:
    """Splits the restriction of the current element; returns None if the restriction can't be split
    now.
    """
    try:
        try:
            split = source.receivers[0].try_split(keep)
        except NotImplementedError:  # raised by restriction trackers that can't be split
            return None
        if split is None:
            return None
        primaries, residuals = split
        held.stop = held.claimed
        return BundleSplit(
            last_primary=held.claimed - 2,
            first_residual=held.claimed,
            primaries=tuple(source.encode(part.primary_value) for _, part in primaries),
            residuals=tuple(create_residual(source, op, part) for op, part in residuals),
        )
    except BaseException as error:
        if not is_user_code_error(error):
            raise
        held.stop = held.claimed
        step = str(source.targets[0].name_context.step_name)
        trace = "".join(traceback.format_exception(error))
        source.failed_split = BundleError(
            step, f"{describe_exception(error)} (during a split)", trace
        )
        return None
