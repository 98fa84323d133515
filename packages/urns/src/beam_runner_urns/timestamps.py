"""Bounds of event time in Beam's model, in milliseconds since 1970-01-01T00:00:00Z."""

from __future__ import annotations

MIN_TIMESTAMP_MILLIS = -9_223_372_036_854_775
MAX_TIMESTAMP_MILLIS = 9_223_372_036_854_775

# Last timestamp of the global window. The value is one day before MAX_TIMESTAMP_MILLIS, so that a
# timer at the end of the window can still fire.
GLOBAL_WINDOW_MAX_TIMESTAMP_MILLIS = 9_223_371_950_454_775
