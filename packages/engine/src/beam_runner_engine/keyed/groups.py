"""A group: what grouping by key and window gives each time a window fires."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from beam_runner_engine.values.panes import PaneInfo
from beam_runner_engine.values.times import Timestamp


class Group(NamedTuple):
    """One pane of one key's window.

    `key` and `window` are encoded, `timestamp` is the output timestamp (ms), `values` are in the
    order they arrived in, as the host gave them; the engine never looks into them.
    """

    key: bytes
    window: bytes
    timestamp: Timestamp
    pane: PaneInfo
    values: Sequence[Any]
