"""Notes of all visible properties of elements, to compare two ways of processing."""

from __future__ import annotations

from typing import Any

import apache_beam as beam

SEEN: list[Any] = []
"""Notes in the order of processing. A test clears the list at its start."""


class Note(beam.DoFn):
    """A DoFn that notes all visible properties of an element."""

    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        within: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> None:
        SEEN.append(repr((element, time, within, pane)))
