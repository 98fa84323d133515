"""Triggers as data: a record for each trigger of Beam's model (`Trigger` in
`beam_runner_api.proto`).

`beam_runner_engine.keyed.triggers` implements the triggers. Functions in this module return
properties of a trigger that are known before the job runs. Triggers compare by value, so equal
triggers have equal state.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from beam_runner_model.times import Duration


def _check_not_empty(
    instance: Any, attribute: attrs.Attribute[Any], value: tuple[Trigger, ...]
) -> None:
    if not value:
        raise ValueError(f"{type(instance).__name__} needs at least one subtrigger")


def _check_at_least_one(instance: Any, attribute: attrs.Attribute[int], value: int) -> None:
    if value < 1:
        raise ValueError(f"{type(instance).__name__}.count must be at least 1, not {value}")


@attrs.frozen
class DefaultTrigger:
    """Trigger that fires when the watermark passes the end of the window, and for each late
    element.
    """


@attrs.frozen
class Always:
    """Trigger that fires for every arriving bundle of elements."""


@attrs.frozen
class Never:
    """Trigger that never fires; the data of a window is emitted when the window closes."""


@attrs.frozen
class AfterCount:
    """Trigger that fires once the pane has `count` elements, and then finishes."""

    count: int = attrs.field(validator=_check_at_least_one)


@attrs.frozen
class Delay:
    """Transform of a processing time that adds `delay` ms."""

    delay: Duration


@attrs.frozen
class AlignTo:
    """Transform of a processing time that rounds up to the next `offset + n * period` (ms)."""

    period: Duration
    offset: Duration = 0


@attrs.frozen
class AfterProcessingTime:
    """Trigger that fires at a processing time: the arrival time of the pane's first element, with
    `transforms` applied in order.
    """

    transforms: tuple[Delay | AlignTo, ...] = ()


@attrs.frozen
class AfterSynchronizedProcessingTime:
    """Trigger that fires at the runner's discretion downstream of `AfterProcessingTime`. This
    runner fires whenever elements arrive.
    """


@attrs.frozen
class AfterEndOfWindow:
    """Trigger that fires when the watermark passes the end of the window.

    `early` fires repeatedly before that point, and `late` fires repeatedly after that point.
    Without `late`, the trigger finishes at the end of the window.
    """

    early: Trigger | None = None
    late: Trigger | None = None


@attrs.frozen
class AfterAll:
    """Trigger that fires when all its subtriggers are ready, and finishes when all are finished."""

    triggers: tuple[Trigger, ...] = attrs.field(validator=_check_not_empty)


@attrs.frozen
class AfterAny:
    """Trigger that fires when any subtrigger is ready, and finishes when any subtrigger finishes."""

    triggers: tuple[Trigger, ...] = attrs.field(validator=_check_not_empty)


@attrs.frozen
class AfterEach:
    """Trigger that runs its subtriggers in order; each subtrigger runs until it finishes."""

    triggers: tuple[Trigger, ...] = attrs.field(validator=_check_not_empty)


@attrs.frozen
class OrFinally:
    """Trigger that fires when `main` or `until` fires, and finishes when either of them finishes.

    `until` can fire without finishing, as in Beam's Java and Python SDKs.
    """

    main: Trigger
    until: Trigger


@attrs.frozen
class Repeatedly:
    """Trigger that restarts `trigger` whenever `trigger` finishes, and never finishes."""

    trigger: Trigger


Trigger: TypeAlias = (
    DefaultTrigger
    | Always
    | Never
    | AfterCount
    | AfterProcessingTime
    | AfterSynchronizedProcessingTime
    | AfterEndOfWindow
    | AfterAll
    | AfterAny
    | AfterEach
    | OrFinally
    | Repeatedly
)


def may_fire_early(trigger: Trigger) -> bool:
    """Returns whether a window can have a pane before the watermark passes the end of the window."""
    match trigger:
        case DefaultTrigger() | Never():
            return False
        case AfterEndOfWindow(early):
            return early is not None
        case AfterAll(parts):
            return all(map(may_fire_early, parts))
        case AfterAny(parts):
            return any(map(may_fire_early, parts))
        case AfterEach(parts):
            return may_fire_early(parts[0])
        case OrFinally(main, until):
            return may_fire_early(main) or may_fire_early(until)
        case Repeatedly(part):
            return may_fire_early(part)
        case _:
            return True


def fires_exactly_once(trigger: Trigger) -> bool:
    """Returns whether every window of bounded input without late data fires exactly once."""
    match trigger:
        case DefaultTrigger() | Never() | AfterEndOfWindow(early=None):
            return True
        case _:
            return False
