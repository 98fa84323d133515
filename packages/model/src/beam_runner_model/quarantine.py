"""Records of quarantined units. A unit is an element, a key with its values, or a timer that always
makes a step fail. The runner removes the unit from the job and stores it in a file.
"""

from __future__ import annotations

import enum

import attrs

from beam_runner_model.times import Timestamp


class QuarantinedUnitKind(enum.Enum):
    """Kind of a quarantined unit: an element, a key with its values, or a timer."""

    ELEMENT = "element"
    GROUP = "group"
    """A key with all values of one firing, the output of a GroupByKey."""
    TIMER = "timer"


@attrs.frozen
class QuarantinedUnit:
    """Element, key or timer that always makes a step fail, with the description of its failure.

    Attributes:
        kind: the kind of the unit.
        step: the full name of the transform that failed.
        error: the type and the text of the exception.
        trace: the traceback of the exception.
        timestamp: the event time (ms); for a timer, the time at which the timer fires.
        windows: descriptions of the windows.
        pane: a description of the pane.
        value: the nested encoding of the element, or of the key and the values of a group; for a
            timer, the nested encoding of the key.
        coder: a description of the coder of `value`.
        timer: the family and the tag of a timer; empty for elements and groups.
        attempts: the number of attempts in which the unit failed.
        header: the encoded event time, windows and pane of an element or a group; empty for a timer.
    """

    kind: QuarantinedUnitKind
    step: str
    error: str
    trace: str
    timestamp: Timestamp
    windows: tuple[str, ...]
    pane: str
    value: bytes
    coder: str
    timer: str = ""
    attempts: int = 0
    header: bytes = b""
