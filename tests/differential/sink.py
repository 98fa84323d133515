"""Sink of outputs: each bundle writes a separate file, independent of runner and process."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
from rules import told
from typed import Collection
from values import Kind, render

Outputs = dict[str, Counter[str]]
"""Counts of each element with its timestamp, window and pane, by the name of the output."""


def keep(made: Collection, folder: str, name: str) -> None:
    """Writes the output of a step."""
    made.pc | f"{made.label}/Keep" >> beam.ParDo(Keep(made.kind, folder, name))


def kept(folder: Path) -> Outputs:
    """Returns all written outputs."""
    outputs: Outputs = {}
    for file in folder.glob("*.json"):
        name, rows = json.loads(file.read_text(encoding="utf-8", errors="surrogatepass"))
        outputs.setdefault(name, Counter()).update(rows)
    return outputs


class Keep(beam.DoFn):
    """Writes the elements of a bundle at its end."""

    def __init__(self, kind: Kind, folder: str, name: str) -> None:
        self._kind, self._folder, self._name = kind, folder, name

    def start_bundle(self) -> None:
        self._rows: list[str] = []

    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> None:
        fired = f"pane {pane.timing} {pane.index} {pane.nonspeculative_index}"
        fired = f"{fired} {pane.is_first:d}{pane.is_last:d}"
        self._rows.append(
            f"{render(self._kind, element)} @{told(f'{time.micros} {window}')} {fired}"
        )

    def finish_bundle(self) -> None:
        if not self._rows:
            return
        text = json.dumps([self._name, self._rows])
        unfinished = Path(self._folder, uuid.uuid4().hex)
        unfinished.write_text(text, encoding="utf-8", errors="surrogatepass")
        unfinished.rename(unfinished.with_suffix(".json"))
