"""Names of exceptions of the Python SDK's user code that the runner distinguishes."""

from __future__ import annotations

SINK_CONFLICT = "beam_spark_io.exactly_once.protocols.CommitConflict"
"""Name of the error of a sink whose marks contradict the job. Each attempt ends with the same error."""
