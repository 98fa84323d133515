"""Keeps what can be seen of elements, so that two ways to come by them can be compared."""

from __future__ import annotations

from typing import Any

import apache_beam as beam

SEEN: list[Any] = []
"""In the order in which it was seen; who begins clears it."""


class Note(beam.DoFn):
    """Keeps all that can be seen of an element."""

    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        within: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> None:
        SEEN.append(repr((element, time, within, pane)))
