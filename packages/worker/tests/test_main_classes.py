from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_worker.main_classes import decode_classes, encode_classes


@given(st.dictionaries(st.text(), st.binary()))
def test_main_module_classes_round_trip_through_file(classes: dict[str, bytes]) -> None:
    assert decode_classes(encode_classes(classes)) == classes


@pytest.mark.parametrize("file", [b"", b"[1]", b'{"A": 1}', b'{"A": "!"}', b"\xff"])
def test_invalid_main_module_classes_file_raises_value_error(file: bytes) -> None:
    with pytest.raises(ValueError):
        decode_classes(file)
