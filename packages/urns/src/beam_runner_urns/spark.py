"""URNs of the transforms that only the Spark runner knows: it carries them out by Spark's own readers and writers."""

from __future__ import annotations

READ = "beam_spark:transform:read:v1"
"""Of an impulse batches of rows, each as a stream of Arrow's format."""
READ_STREAM = "beam_spark:transform:read_stream:v1"
"""Of an impulse batches of rows as they come, without end, each as a stream of Arrow's format."""
STAGE = "beam_spark:transform:stage:v1"
"""Of all batches what was written with them, where nobody looks yet."""
PUBLISH = "beam_spark:transform:publish:v1"
"""Of what was written the name of where it is seen from now on."""

ALL = frozenset({READ, READ_STREAM, STAGE, PUBLISH})
