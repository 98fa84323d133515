from __future__ import annotations

import pytest
from apache_beam.coders import (
    BytesCoder,
    Coder,
    FloatCoder,
    StrUtf8Coder,
    TupleCoder,
    VarIntCoder,
)
from beam_runner_model.jobs import MetricCell
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_jobservices.figures.samples import URN, decode_samples, format_sample


@pytest.mark.parametrize(
    ("coder", "words", "element", "text"),
    [
        (StrUtf8Coder(), "string_utf8", "a\nb", "'a\\nb'"),
        (VarIntCoder(), "varint", -3, "-3"),
        (BytesCoder(), "bytes", b"\0x", "b'\\x00x'"),
        (
            TupleCoder([StrUtf8Coder(), VarIntCoder()]),
            "kv<string_utf8, varint>",
            ("k", 7),
            "'k': 7",
        ),
        (
            TupleCoder([TupleCoder([VarIntCoder(), FloatCoder()]), BytesCoder()]),
            "kv<kv<varint, double>, bytes>",
            ((1, 2.5), b"v"),
            "1: 2.5: b'v'",
        ),
    ],
)
def test_sample_bytes_of_simple_coders_are_decoded(
    coder: Coder, words: str, element: object, text: str
) -> None:
    assert format_sample(coder.get_impl().encode_nested(element), words) == text


@given(
    st.binary(max_size=60),
    st.sampled_from(["bytes", "varint", "kv<bytes, double>", "pickled_python", "kv<", "kv<bytes>"]),
)
def test_sample_bytes_of_any_kind_become_text(data: bytes, words: str) -> None:
    assert format_sample(data, words)
    assert len(decode_samples(MetricCell(URN, URN, data, {}))) <= 10


def test_sample_bytes_of_custom_coder_are_not_decoded() -> None:
    assert format_sample(b"\x80\x04cos\nsystem\n", "pickled_python") == repr(
        b"\x80\x04cos\nsystem\n"
    )
