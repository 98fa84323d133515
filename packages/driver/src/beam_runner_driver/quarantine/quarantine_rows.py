"""Reader of quarantine files (failing elements), for a replay that processes the elements again."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from beam_runner_model.quarantine import QuarantinedUnitKind
from beam_runner_storage.errors import StorageError
from beam_runner_storage.stores.ports import MissingFileError
from beam_runner_storage.stores.spec import StoreSpec

_COLUMNS = ["kind", "step", "header", "element"]


@attrs.frozen
class QuarantineRow:
    """Row of a quarantine file: a failed element, group or timer.

    Attributes:
        file: name of the file.
        row: number of the row in the file.
        kind: kind of the unit.
        step: full name of the step that failed.
        encoded: the encoded windowed value, if the unit is an element.
    """

    file: str
    row: int
    kind: QuarantinedUnitKind
    step: str
    encoded: bytes = attrs.field(repr=False)


def read_rows(spec: StoreSpec, names: Iterable[str]) -> Iterator[tuple[QuarantineRow, ...] | None]:
    """Yields the rows of each file as a list, in the order of `names`; None for a file that the
    store doesn't have.

    Raises:
        StorageError: The store doesn't respond or refuses, or a file isn't a quarantine file.
    """
    store = spec.open_store()
    with tempfile.TemporaryDirectory(prefix="beam-spark-quarantine-") as folder:
        target = Path(folder, "file")
        for name in names:
            try:
                store.fetch_file(name, target)
            except MissingFileError:
                yield None
                continue
            try:
                rows = pq.read_table(target, columns=_COLUMNS).to_pylist()
            except (pa.ArrowException, OSError) as error:
                raise StorageError(f"{spec.url}/{name} isn't a quarantine file: {error}") from error
            yield tuple(
                QuarantineRow(
                    name,
                    number,
                    QuarantinedUnitKind(row["kind"]),
                    row["step"],
                    row["header"] + row["element"],
                )
                for number, row in enumerate(rows)
            )
