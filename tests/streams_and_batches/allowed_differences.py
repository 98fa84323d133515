"""The differences that are allowed, three at most, each with its rule."""

from __future__ import annotations

from rules import of_the_oracle, told


def of_fn_api_runner(row: str) -> str:
    """Returns a row of FnApiRunner as a stream should have it.

    1. Rules 3 and 4 of ``tests/differential/rules.py``: FnApiRunner ends the global window a
       millisecond early, and says of no pane of the default trigger that it is the last.
    """
    return of_the_oracle(told(row))
