"""What a server can't begin without is not there."""

from __future__ import annotations


class Unavailable(Exception):
    """There is nothing to run jobs on; the text is one sentence for the person at the terminal."""
