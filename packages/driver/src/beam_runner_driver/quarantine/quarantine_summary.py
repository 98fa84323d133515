"""Summaries of quarantine files (files of failing elements), for the command line and the web UI."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from beam_runner_storage.errors import StorageError
from beam_runner_storage.stores.spec import StoreSpec

_SUFFIX = ".parquet"
_COLUMNS = ["job_id", "step", "kind", "error", "timestamp_ms"]


@attrs.frozen
class QuarantineSummary:
    """Summary of the failing units of one job, step and kind (element, group or timer) in
    quarantine files.

    Attributes:
        job_id: ID of the job.
        step: full name of the failed step.
        kind: kind of the units.
        count: number of units.
        first_ms: earliest event time (ms).
        last_ms: latest event time (ms).
        error: error of one of the units.
    """

    job_id: str
    step: str
    kind: str
    count: int
    first_ms: int
    last_ms: int
    error: str


def summarize_quarantine(spec: StoreSpec) -> Sequence[QuarantineSummary]:
    """Returns summaries of all quarantine files in a store, by job, step and kind.

    Raises:
        StorageError: The store doesn't respond or refuses, or a file isn't a quarantine file.
    """
    store = spec.open_store()
    found: dict[tuple[str, str, str], QuarantineSummary] = {}
    with tempfile.TemporaryDirectory(prefix="beam-spark-quarantine-") as folder:
        target = Path(folder, "file")
        for name in sorted(one for one in store.list_names() if one.endswith(_SUFFIX)):
            store.fetch_file(name, target)
            try:
                rows = pq.read_table(target, columns=_COLUMNS).to_pylist()
            except (pa.ArrowException, OSError) as error:
                raise StorageError(f"{spec.url}/{name} isn't a quarantine file: {error}") from error
            for row in rows:
                _add_quarantine_row(found, row)
    return tuple(found[key] for key in sorted(found))


def _add_quarantine_row(
    found: dict[tuple[str, str, str], QuarantineSummary], row: dict[str, Any]
) -> None:
    key = (row["job_id"], row["step"], row["kind"])
    time = row["timestamp_ms"]
    known = found.get(key)
    if known is None:
        found[key] = QuarantineSummary(*key, 1, time, time, row["error"])
    else:
        found[key] = attrs.evolve(
            known,
            count=known.count + 1,
            first_ms=min(known.first_ms, time),
            last_ms=max(known.last_ms, time),
        )
