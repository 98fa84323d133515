"""Outputs of pipelines: every committed row once in a file, and a record of every attempt."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders.coders import Coder, IntervalWindowCoder
from apache_beam.transforms.window import (
    GlobalWindow,
    IntervalWindow,
    NonMergingWindowFn,
    WindowFn,
)

Outputs = dict[str, Counter[str]]
"""The number of each row, by the name of its tap."""
_ATTEMPTS = "attempts"


class Tap(beam.DoFn):
    """Returns a row for each element, and appends the rows of each bundle to the file of attempts.

    Args:
        name: name of the tap.
        folder: folder of the outputs.
        shown: attributes of elements that are part of rows: ``time``, ``pane``.
    """

    def __init__(self, name: str, folder: str, shown: Sequence[str]) -> None:
        self._name, self._folder, self._shown = name, folder, shown

    def start_bundle(self) -> None:
        self._rows: list[str] = []

    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[tuple[str, str]]:
        span = "global"
        if not isinstance(window, GlobalWindow):
            span = f"{window.start.micros // 1000}-{window.end.micros // 1000}"
        fired = None
        if "pane" in self._shown:
            flags = f"{pane.is_first:d}{pane.is_last:d}"
            fired = f"{pane.timing} {pane.index} {pane.nonspeculative_index} {flags}"
        at = time.micros // 1000 if "time" in self._shown else None
        row = row_text(element, at, span, fired)
        self._rows.append(row)
        yield self._name, row

    def finish_bundle(self) -> None:
        if self._rows:
            line = json.dumps([self._name, self._rows]) + "\n"
            path = Path(self._folder, _ATTEMPTS)
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)


class Write(beam.DoFn):
    """Writes all rows of a tap to its file. A retry writes the same file again."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, element: tuple[str, Iterable[str]]) -> None:
        name, rows = element
        path = Path(self._folder, name.replace("/", "~"))
        unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
        unfinished.write_text(json.dumps([name, Counter(rows)]), encoding="utf-8")
        unfinished.rename(path.with_name(f"{path.name}.rows"))


def row_text(value: Any, time: int | None, span: str, pane: str | None) -> str:
    """Returns the row of an element. None leaves an attribute out."""
    shown = [repr(value), f"[{span}]"]
    if time is not None:
        shown.append(f"@{time}")
    if pane is not None:
        shown.append(f"pane {pane}")
    return " ".join(shown)


class Always(NonMergingWindowFn):
    """One window of all elements, including elements behind the end of the global window."""

    def assign(self, context: WindowFn.AssignContext) -> list[IntervalWindow]:
        return [IntervalWindow(0, 9_223_372_036_854)]

    def get_window_coder(self) -> Coder:
        return IntervalWindowCoder()


def add_tap(made: Any, label: str, tap: Tap) -> Any:
    """Returns the rows of a PCollection, in a window of all elements."""
    rows = made | f"{label}/Tap" >> beam.ParDo(tap).with_output_types(tuple[str, str])
    return rows | f"{label}/Tapped" >> beam.WindowInto(Always())


def write_all(taps: Sequence[Any], folder: str) -> None:
    """Adds the transforms that gather the rows of all taps at the end of time and write them."""
    rows = tuple(taps) | "Taps" >> beam.Flatten() | "ByTap" >> beam.GroupByKey()
    rows | "Write" >> beam.ParDo(Write(folder))


def committed(folder: Path) -> Outputs:
    """Returns the rows that were committed."""
    found = (json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("*.rows"))
    return {name: Counter(rows) for name, rows in found}


def attempted(folder: Path) -> Outputs:
    """Returns the rows of all completed bundles, committed or not."""
    outputs: Outputs = {}
    path = folder / _ATTEMPTS
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        name, rows = json.loads(line)
        outputs.setdefault(name, Counter()).update(rows)
    return outputs
