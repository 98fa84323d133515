"""What mends the oracle."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from called import begin
from called_oracle import outputs_of_the_oracle
from mortal import Mortals
from rules import told
from spec import Spec, Step


def test_timers_of_transforms_that_call_them_the_same_are_apart() -> None:
    # The keys of one are of bytes; the other one's coder made a segmentation fault of them, or an error.
    strings = {"kind": "str", "values": ["a", "b"], "times": None, "hinted": True}
    specs = {
        f"p{sharded:d}": Spec(
            (Step("create", (), strings), Step("batches", (0,), {"size": 5, "sharded": sharded}))
        )
        for sharded in (True, False)
    }
    with Mortals(begin) as mortals:
        found = mortals.call(outputs_of_the_oracle, specs)
    assert isinstance(found, dict)
    assert found.keys() == {"p0/1", "p1/1"}
    assert all(rows.total() for rows in found.values())


def test_windows_before_all_time_are_told_as_beams_coder_makes_them() -> None:
    assert told("[-9223372036860.0, -9223372036850.0)") == "[-9223372036854.775, -9223372036850.0)"
    assert (
        told("[-9223372036854.775, -9223372036850.0)") == "[-9223372036854.775, -9223372036850.0)"
    )
    assert told("[-9223372036850.0, -9223372036840.0)") == "[-9223372036850.0, -9223372036840.0)"
    assert told("[-10.0, 0.0)") == "[-10.0, 0.0)"
