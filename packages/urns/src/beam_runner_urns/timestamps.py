"""The model's bounds of event time, in milliseconds since 1970-01-01T00:00:00Z."""

from __future__ import annotations

MIN_TIMESTAMP_MILLIS = -9_223_372_036_854_775
MAX_TIMESTAMP_MILLIS = 9_223_372_036_854_775

# End of the global window: a day before the end of time, so that a timer at its end can still be set.
GLOBAL_WINDOW_MAX_TIMESTAMP_MILLIS = 9_223_371_950_454_775
