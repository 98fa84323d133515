"""A group: what grouping by key and window gives each time a window fires."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from beam_runner_engine.values.panes import PaneInfo
from beam_runner_engine.values.times import Timestamp


class Group(NamedTuple):
    """One pane of one key's window.

    `key` and `window` are encoded, `timestamp` is the output timestamp (ms), `values` are as the
    host gave them; the engine never looks into them. They are in the order they arrived in; those
    of windows that were merged may come window by window.
    """

    key: bytes
    window: bytes
    timestamp: Timestamp
    pane: PaneInfo
    values: Sequence[Any]
