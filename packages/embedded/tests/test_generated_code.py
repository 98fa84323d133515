"""Tests of the compilation of generated functions."""

from __future__ import annotations

import traceback

import pytest

from beam_runner_embedded.failing_frames import is_runner_frame
from beam_runner_embedded.generated_code import compile_function, is_attribute_name


@pytest.mark.parametrize(
    ("name", "is_usable"),
    [
        *(("store", True), ("_private", True), ("größe", False), ("class", False)),
        *(("two words", False), ("", False), ("__debug__", False), (1, False)),
    ],
)
def test_only_ascii_identifiers_are_used_in_code(name: object, is_usable: bool) -> None:
    assert is_attribute_name(name) == is_usable


def test_frame_of_generated_code_belongs_to_the_runner() -> None:
    divide = compile_function("divide", ("def divide(x):", " return one / x"), {"one": 1})
    assert divide(2) == 0.5
    with pytest.raises(ZeroDivisionError) as failed:
        divide(0)
    frames = [frame for frame, _ in traceback.walk_tb(failed.tb)]
    assert [frame.f_code.co_name for frame in frames if is_runner_frame(frame)] == ["divide"]
    assert not any(line.line for line in traceback.extract_tb(failed.tb) if line.name == "divide")
