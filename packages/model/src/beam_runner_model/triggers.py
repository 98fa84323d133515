"""Triggers as data: every trigger of Beam's model (`Trigger` in `beam_runner_api.proto`).

What they do is in `beam_runner_engine.keyed.triggers`; how they read is here, one record each, and
what is known of them before they run: whether they fire early, and whether only once.
Triggers compare by value, so an equal trigger has equal state.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from beam_runner_model.times import Duration


def _not_empty(instance: Any, attribute: attrs.Attribute[Any], value: tuple[Trigger, ...]) -> None:
    if not value:
        raise ValueError(f"{type(instance).__name__} needs at least one trigger")


def _at_least_one(instance: Any, attribute: attrs.Attribute[int], value: int) -> None:
    if value < 1:
        raise ValueError(f"{type(instance).__name__} needs a count of at least 1, not {value}")


@attrs.frozen
class DefaultTrigger:
    """Fires when the watermark passes the end of the window, and again for each late element."""


@attrs.frozen
class Always:
    """Fires whenever elements come."""


@attrs.frozen
class Never:
    """Never fires: the window's data comes out when the window closes."""


@attrs.frozen
class AfterCount:
    """Fires once there are `count` elements, and is finished."""

    count: int = attrs.field(validator=_at_least_one)


@attrs.frozen
class Delay:
    """Moves a time `delay` ms ahead."""

    delay: Duration


@attrs.frozen
class AlignTo:
    """Moves a time ahead to the next `offset + n * period` (ms) after it."""

    period: Duration
    offset: Duration = 0


@attrs.frozen
class AfterProcessingTime:
    """Fires once processing time reaches that of the pane's first element, moved by `transforms`
    in turn.
    """

    transforms: tuple[Delay | AlignTo, ...] = ()


@attrs.frozen
class AfterSynchronizedProcessingTime:
    """Fires at the runner's discretion downstream of `AfterProcessingTime`; here, whenever elements
    come.
    """


@attrs.frozen
class AfterEndOfWindow:
    """Fires when the watermark passes the end of the window; `early` before it and `late` after
    it, repeatedly.

    Without `late` it is finished at the end of the window.
    """

    early: Trigger | None = None
    late: Trigger | None = None


@attrs.frozen
class AfterAll:
    """Fires when all of its triggers are ready; finished when all of them are."""

    triggers: tuple[Trigger, ...] = attrs.field(validator=_not_empty)


@attrs.frozen
class AfterAny:
    """Fires when any of its triggers is ready; finished when any of them is."""

    triggers: tuple[Trigger, ...] = attrs.field(validator=_not_empty)


@attrs.frozen
class AfterEach:
    """Follows its triggers one after the other, each until it is finished."""

    triggers: tuple[Trigger, ...] = attrs.field(validator=_not_empty)


@attrs.frozen
class OrFinally:
    """Follows `main` and `until`; finished when either of them is.

    So `until` may fire and go on, as in Beam's Java and Python SDKs.
    """

    main: Trigger
    until: Trigger


@attrs.frozen
class Repeatedly:
    """Follows `trigger`, from its start again whenever it is finished; never finished itself."""

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
    """Whether a window may have a pane before the watermark is beyond its end."""
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


def fires_once(trigger: Trigger) -> bool:
    """Whether bounded input, of which nothing is late, surely fires each window exactly once."""
    match trigger:
        case DefaultTrigger() | Never() | AfterEndOfWindow(early=None):
            return True
        case _:
            return False
