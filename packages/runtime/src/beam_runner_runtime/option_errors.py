"""Error for pipeline options with invalid values."""

from __future__ import annotations


class InvalidOptionError(ValueError):
    """Raised for a pipeline option with an invalid value. The message contains the valid values."""
