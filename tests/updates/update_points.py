"""Points of an update at which tests kill the server."""

from __future__ import annotations

POINTS = (
    "before update",
    "after update",
    "after hold",
    "before decision",
    "after decision",
    "before succession",
    "after succession",
    "before answer",
    "after answer",
)
"""Points of an update, in order."""
