"""Tests of the corrections of Beam's FnApiRunner, which serves as the reference runner."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from apache_beam.coders.coders import TimestampCoder, TimestampPrefixingOpaqueWindowCoder
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import Timestamp

sys.path.insert(0, str(Path(__file__).parent))

from called import begin
from called_oracle import outputs_of_the_oracle
from mortal import Mortals
from rules import last_moment, told
from spec import Spec, Step


def test_reference_runner_separates_timers_of_two_transforms_with_the_same_name() -> None:
    # The first transform has keys of bytes; the second coder turned them into a segmentation fault,
    # or an error.
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


def test_reference_runner_side_input_contains_the_output_of_all_bundles() -> None:
    # Full batches, and a batch that a timer ends; numbers are below 7, and keys of the multimap
    # below 3.
    numbers = {"kind": "int", "values": list(range(9)), "times": None, "hinted": True}
    beside = {"forms": ["multimap", "iter", "list"]}
    spec = Spec(
        (
            Step("create", (), numbers),
            Step("batches", (0,), {"size": 2, "sharded": True}),
            Step("beside", (1, 1, 1, 1), beside),
        )
    )
    with Mortals(begin) as mortals:
        found = mortals.call(outputs_of_the_oracle, {"p": spec})
    assert isinstance(found, dict)
    rows = [re.findall(r"\[([\d, ]*)\]", row) for row in found["p/2"].elements()]
    assert len(rows) == 9
    for of_a_key, every_one, _ in rows:
        keys = {int(number) % 3 for number in of_a_key.split(", ")}
        assert len(keys) == 1
        assert of_a_key == ", ".join(n for n in every_one.split(", ") if int(n) % 3 in keys)


def test_reference_runner_pcollection_as_side_and_main_input_is_complete() -> None:
    numbers = {"kind": "int", "values": list(range(9)), "times": None, "hinted": True}
    spec = Spec(
        (
            Step("create", (), numbers),
            Step("batches", (0,), {"size": 2, "sharded": False}),
            Step("whole_beside", (1, 1), {"form": "iter"}),
        )
    )
    with Mortals(begin) as mortals:
        found = mortals.call(outputs_of_the_oracle, {"p": spec})
    assert isinstance(found, dict)
    told_of = [re.findall(r"str '(\d+) ", row) for row in found["p/2"].elements()]
    assert told_of == [[str(len(told_of))]] * len(told_of)


@pytest.mark.parametrize("second", [10, -10])
def test_reference_runner_end_of_window_pane_has_the_last_millisecond_of_its_window(
    second: int,
) -> None:
    window = IntervalWindow(second - 5, second)
    coder = TimestampPrefixingOpaqueWindowCoder()
    last = window.max_timestamp().micros // 1000 * 1000
    opaque = coder.decode(TimestampCoder().encode(Timestamp(micros=last)) + b"window")
    assert last == second * 1_000_000 - 1000
    for each in (window, opaque):
        assert last_moment(None, each, None) == Timestamp(micros=last)


def test_reference_runner_clamps_a_window_before_the_minimum_timestamp_like_beam() -> None:
    assert told("[-9223372036860.0, -9223372036850.0)") == "[-9223372036854.775, -9223372036850.0)"
    assert (
        told("[-9223372036854.775, -9223372036850.0)") == "[-9223372036854.775, -9223372036850.0)"
    )
    assert told("[-9223372036850.0, -9223372036840.0)") == "[-9223372036850.0, -9223372036840.0)"
    assert told("[-10.0, 0.0)") == "[-10.0, 0.0)"
