"""Modes of writes into tables."""

from __future__ import annotations

APPEND = "append"
OVERWRITE = "overwrite"
OVERWRITE_PARTITIONS = "overwrite_partitions"
UPSERT = "upsert"
REPLACING = (OVERWRITE, OVERWRITE_PARTITIONS)
"""Modes in which a commit replaces the rows of earlier commits."""
