from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_worker.main_classes import decode, encode


@given(st.dictionaries(st.text(), st.binary()))
def test_what_is_sent_is_found(classes: dict[str, bytes]) -> None:
    assert decode(encode(classes)) == classes


@pytest.mark.parametrize("file", [b"", b"[1]", b'{"A": 1}', b'{"A": "!"}', b"\xff"])
def test_what_is_no_such_file_is_a_value_error(file: bytes) -> None:
    with pytest.raises(ValueError):
        decode(file)
