"""The differences that are allowed, each with its rule. There must be three at most.

The following isn't a difference, because pipelines are made so that no runner has to agree on it:

- Nothing reads what comes at the end of the global window, and its timestamps aren't compared. That
  end isn't the same for all runners, and elements behind it are late.
- What timers and batches return gets the end of its window as its timestamp. Otherwise it depends on
  the order of arrival, and Python's SDK takes the time of the clock for timers in processing time.
- Windows that have merged don't merge again. Which of them do depends on the time at which they close.
"""

from __future__ import annotations

from rules import of_the_oracle, told


def of_fn_api_runner(row: str) -> str:
    """Returns a row of FnApiRunner as a stream should have it.

    1. FnApiRunner says of no pane of the default trigger that it is the last, because late elements
       could follow. The batch has none. FnApiRunner also ends the global window a millisecond early.
       These are the rules 4 and 3 of ``tests/differential/rules.py``, which mends its other errors.
    """
    return of_the_oracle(told(row))
