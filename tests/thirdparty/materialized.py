"""Results of ``[1, 2] | transform``, which Beam stores in the process: the server's workers return them by files."""

from __future__ import annotations

import itertools
import pickle
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.transforms import ptransform

_numbers = itertools.count()


class FromFiles(ptransform._MaterializedResult):
    """Result of workers in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> Any:
        return FromFiles, (self._folder,)

    @property
    def elements(self) -> list[Any]:
        """Returns all elements, in no order."""
        files = self._folder.iterdir()
        return [element for file in files for element in pickle.loads(file.read_bytes())]


class ToFiles(beam.DoFn):
    """Writes a file for each bundle."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._elements: list[Any] = []

    def start_bundle(self) -> None:
        self._elements = []

    def process(self, element: Any) -> None:
        self._elements.append(element)

    def finish_bundle(self) -> None:
        written = self._folder / uuid.uuid4().hex
        written.write_bytes(pickle.dumps(self._elements))


def by_files(root: str) -> Callable[[object, beam.Pipeline], tuple[beam.PTransform, FromFiles]]:
    """Returns a replacement for Beam's ``_AddMaterializationTransforms._materialize_transform``, with
    folders below a folder.
    """

    def materialize(_: object, pipeline: beam.Pipeline) -> tuple[beam.PTransform, FromFiles]:
        folder = Path(tempfile.mkdtemp(dir=root))
        label = f"_MaterializeValues{next(_numbers)}"
        return label >> beam.ParDo(ToFiles(folder)), FromFiles(folder)

    return materialize
