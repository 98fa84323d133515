"""Readiness of a server to run jobs."""

from __future__ import annotations

import enum


class Readiness(enum.Enum):
    """Whether a server can run jobs now, and otherwise the part that is missing."""

    READY = "ready"
    STARTING = "starting"
    DRAINING = "draining"
    NO_PLACEMENT = "no placement"
    NO_STATE_STORE = "no state store"
