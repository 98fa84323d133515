"""Base transform of table writes (Delta, Iceberg): checks the arguments, and writes rows through a sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import apache_beam as beam
import attrs
from apache_beam.pvalue import PCollection

from beam_spark_io.exactly_once.transform import WriteExactlyOnce
from beam_spark_io.schemas import make_declared_arrow_schema
from beam_spark_io.tables.modes import OVERWRITE, REPLACING, UPSERT
from beam_spark_io.tables.writer import add_overwrite_marker

Target = TypeVar("Target")
EVERY = 60
"""Seconds between two commits of a stream by default."""


class TableSink(Generic[Target]):
    """Base class of sinks for tables. A table has only one shard, because a table can accept only
    one commit at a time.
    """

    shards = 1

    def __init__(self, target: Target) -> None:
        self._target = target

    def select_shard(self, element: Any) -> int:
        """Returns the only shard."""
        return 0


class WriteTable(beam.PTransform):
    """Transform that writes each row once into a table.

    Args:
        create_sink: function that returns the sink of a target.
        target: the table and the kind of the write, with the attributes `mode`, `key` and `declared`.
        modes: the supported modes.
        named: names of columns, by the argument that has them.
        schema: columns of the rows; None for those of the element type.
        every: whole seconds between two commits of a stream.
        options: further arguments of `WriteExactlyOnce`.

    Raises:
        ValueError: An argument is invalid.
    """

    def __init__(
        self,
        create_sink: Callable[[Any], Any],
        target: Any,
        modes: Sequence[str],
        named: Mapping[str, Sequence[str]],
        schema: Any,
        every: int,
        options: Mapping[str, Any],
    ) -> None:
        super().__init__()
        if target.mode not in modes:
            raise ValueError(f"mode is {target.mode!r}; expected one of {', '.join(modes)}")
        if (target.mode == UPSERT) != bool(target.key):
            raise ValueError(
                f"mode is {target.mode!r} and key is {list(target.key)}; an upsert needs a key"
            )
        if every is None:
            raise ValueError("every is None; expected the whole seconds between two commits")
        self._create_sink = create_sink
        self._target = target
        self._named = named
        self._schema = schema
        self._options = {"every": every, **options}

    def expand(self, rows: PCollection[Any]) -> PCollection[Any]:
        """Returns the results of the commits; each has the number of rows.

        Raises:
            ValueError: The mode needs a bounded pipeline, or a named column is missing.
        """
        mode = self._target.mode
        if mode in REPLACING and not rows.is_bounded:
            raise ValueError(
                f"{self.label} can't use the mode {mode!r} in a stream, where each commit would "
                "replace"
                " the earlier ones: use append or upsert"
            )
        declared = make_declared_arrow_schema(
            rows.element_type if self._schema is None else self._schema
        )
        if declared is not None:
            for argument, names in self._named.items():
                for name in names:
                    if name not in declared.names:
                        raise ValueError(f"the rows have no field {name!r}, which {argument} names")
        if mode == OVERWRITE:
            rows = add_overwrite_marker(rows)
        sink = self._create_sink(attrs.evolve(self._target, declared=declared))
        results: PCollection[Any] = rows | "Rows" >> WriteExactlyOnce(sink, **self._options)
        return results
