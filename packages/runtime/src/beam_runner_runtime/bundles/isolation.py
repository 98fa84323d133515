"""Isolation of failing input: after a bundle failed in user code, its next attempt finds the units
that cause the failure. A unit is an element, a group or a timer.

Each attempt runs the bundle several times with different units (`unit_search`), and counts the
attempts that found the same failing unit. The failure record contains the counts, so the server
stores them. If all found units have failed in enough attempts, the attempt succeeds without them,
and its reply sends them to quarantine. So a unit goes to quarantine only if it fails in several
attempts, with pauses between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import attrs
from beam_runner_model.chunks import StageTimer
from beam_runner_model.panes import PaneInfo, decode_pane
from beam_runner_model.quarantine import QuarantinedUnit, QuarantinedUnitKind
from beam_runner_model.texts import format_timer
from beam_runner_model.times import Timestamp
from beam_runner_model.window_coders import SKIP_WINDOW, WindowCoder, decode_window
from beam_runner_model.windowed_values import TIME_BYTES, read_event_time, read_windows
from beam_runner_model.windows import GlobalWindow, IntervalWindow
from beam_runner_worker.errors import BundleError

from beam_runner_runtime.bundles.unit_search import (
    RunTrial,
    TrialFailure,
    UnitSearchFailed,
    find_failing_units,
)
from beam_runner_runtime.bundles.units import Unit
from beam_runner_runtime.channel.isolation import IsolationOrder

MOST_UNITS = 100
"""Maximum number of failing units (elements, groups, timers) that one attempt isolates."""
MOST_BYTES = 16 << 20
"""Maximum total size of the units that one attempt sends to quarantine. The attempt's commit
contains these units.
"""
_MOST_TRACE = 16 << 10
"""Maximum length of a stored traceback in characters. Longer tracebacks are cut at the start,
because the end contains the exception.
"""
_DIGEST_BYTES = 16
Counts = tuple[tuple[bytes, int], ...]


@attrs.frozen
class FailingUnits:
    """Failing units (elements, groups, timers) that an attempt at a bundle has isolated.

    Attributes:
        errors: the errors of the units, by the index of the unit; empty if the search failed.
        reason: the reason why the search failed; empty if it succeeded.
    """

    errors: Mapping[int, BundleError]
    reason: str = ""


def search_failing_units(order: IsolationOrder, run: RunTrial, first: TrialFailure) -> FailingUnits:
    """Returns the units (elements, groups, timers) that cause the failure. The last run of the
    bundle then succeeded without these units.

    Args:
        first: failure of the attempt.
    """
    if not order.room:
        return FailingUnits({}, order.quarantine_full_reason)
    most = min(order.room, MOST_UNITS)
    try:
        errors = find_failing_units(
            run, first, most, lambda error: order.applies_to_step(error.transform)
        )
    except UnitSearchFailed as failed:
        reason = str(failed)
        if most == order.room and reason.startswith("more than"):
            reason += (
                f", and the quarantine has no more room (--{order.limit}), so the stream waits"
            )
        return FailingUnits({}, reason)
    return FailingUnits(errors)


def count_unit_failures(order: IsolationOrder, units: Mapping[int, Unit]) -> dict[int, int]:
    """Returns the number of attempts in which each unit (element, group or timer) has failed,
    including this attempt.
    """
    before = dict(order.failures)
    return {number: before.get(compute_unit_digest(unit), 0) + 1 for number, unit in units.items()}


def compute_unit_digest(unit: Unit) -> bytes:
    """Returns a digest of the content of an element, group or timer. The digest is the same in all
    attempts at the bundle.
    """
    timer = unit.timer
    name = b"" if timer is None else repr((timer.family, timer.tag, timer.windows)).encode()
    return blake2b(
        b"%s\n%s\n%s" % (unit.kind.name.encode(), name, unit.encoded), digest_size=_DIGEST_BYTES
    ).digest()


def make_quarantined_unit(
    unit: Unit, error: BundleError, attempts: int, windows: WindowCoder, coder: str
) -> QuarantinedUnit:
    """Returns the record of an element, group or timer that goes to quarantine (the files for
    failing elements).

    Args:
        attempts: number of attempts in which it failed.
        windows: coder of the windows of the stage's input.
        coder: description of the coder of the stage's input.
    """
    header = _read_header(unit.encoded, windows) if unit.timer is None else _read_timer(unit.timer)
    timer = unit.timer
    return QuarantinedUnit(
        kind=unit.kind,
        step=error.transform,
        error=error.summary,
        trace=error.trace[-_MOST_TRACE:],
        timestamp=header.timestamp,
        windows=tuple(_format_window(windows, one) for one in header.windows),
        pane=_format_pane(header.pane),
        value=unit.encoded[header.end :],
        coder=coder if unit.kind is not QuarantinedUnitKind.TIMER else "",
        timer="" if timer is None else format_timer(timer.family, timer.tag),
        attempts=attempts,
        header=unit.encoded[: header.end],
    )


@attrs.frozen
class _Header:
    timestamp: Timestamp
    windows: tuple[bytes, ...]
    pane: PaneInfo
    end: int


def _read_header(encoded: bytes, coder: WindowCoder) -> _Header:
    windows, position = read_windows(encoded, TIME_BYTES, SKIP_WINDOW[coder])
    pane, end = decode_pane(encoded, position)
    return _Header(read_event_time(encoded), windows, pane, end)


def _read_timer(timer: StageTimer) -> _Header:
    assert timer.fire_at is not None
    return _Header(timer.fire_at, timer.windows, decode_pane(timer.pane)[0], 0)


def _format_window(coder: WindowCoder, encoded: bytes) -> str:
    window = decode_window(coder, encoded)
    match window:
        case GlobalWindow():
            return "global"
        case IntervalWindow(start, end):
            return f"[{start} ms, {end} ms)"
    return f"custom window with the last timestamp {window.max_timestamp()} ms"


def _format_pane(pane: PaneInfo) -> str:
    flags = [name for name, is_set in (("first", pane.is_first), ("last", pane.is_last)) if is_set]
    return " ".join((pane.timing.name.lower(), str(pane.index), *flags))
