"""URNs of transforms that only the Spark runner implements, with Spark's own readers and writers."""

from __future__ import annotations

READ = "beam_spark:transform:read:v1"
"""Reads a bounded Spark source: maps an impulse to batches of rows, each in Arrow's stream format."""
READ_STREAM = "beam_spark:transform:read_stream:v1"
"""Reads an unbounded Spark source: maps an impulse to batches of rows as they arrive, each in
Arrow's stream format.
"""
STAGE = "beam_spark:transform:stage:v1"
"""Stages a write: maps the written batches to a record of the staged data, which readers don't see
yet.
"""
PUBLISH = "beam_spark:transform:publish:v1"
"""Publishes a staged write: maps the record of the staged data to the name under which readers find
the data.
"""

ALL = frozenset({READ, READ_STREAM, STAGE, PUBLISH})
