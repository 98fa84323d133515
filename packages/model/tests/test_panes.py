"""Tests that panes are encoded as Beam's `PaneInfoCoderImpl` encodes them."""

from __future__ import annotations

import pytest
from apache_beam.coders.coder_impl import PaneInfoCoderImpl, create_InputStream, create_OutputStream
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.utils.windowed_value import PaneInfo as BeamPaneInfo
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_model.panes import (
    METADATA_BIT,
    NO_FIRING,
    PaneInfo,
    PaneTiming,
    decode_pane,
    encode_pane,
    skip_pane,
)
from beam_runner_model.varints import encode_varint


@st.composite
def panes(draw: st.DrawFn) -> PaneInfo:
    """Draws panes that firings produce: early panes have no nonspeculative index, and unfired panes
    have no index.
    """
    timing = draw(st.sampled_from(PaneTiming))
    index = 0 if timing is PaneTiming.UNKNOWN else draw(st.integers(0, 1000))
    nonspeculative = draw(st.integers(0, index))
    if timing is PaneTiming.EARLY:
        nonspeculative = -1
    return PaneInfo(draw(st.booleans()), draw(st.booleans()), timing, index, nonspeculative)


@given(panes())
def test_encoded_pane_equals_beam(pane: PaneInfo) -> None:
    theirs = BeamPaneInfo(
        pane.is_first, pane.is_last, int(pane.timing), pane.index, pane.nonspeculative_index
    )
    out = create_OutputStream()
    PaneInfoCoderImpl().encode_to_stream(theirs, out, True)
    data = encode_pane(pane)
    assert data == out.get()
    assert decode_pane(b"?" + data + b"?", 1) == (pane, 1 + len(data))
    assert skip_pane(b"?" + data + b"?", 1) == 1 + len(data)
    read = PaneInfoCoderImpl().decode_from_stream(create_InputStream(data), True)
    assert (read.timing, read.is_first, read.is_last) == (
        int(pane.timing),
        pane.is_first,
        pane.is_last,
    )


def test_unfired_pane_is_encoded_as_0x0f() -> None:
    assert encode_pane(NO_FIRING) == b"\x0f"


@pytest.mark.parametrize(
    ("data", "message"), [(b"", "too short"), (b"\x30", "encoding 3 is unknown")]
)
def test_invalid_pane_bytes_raise_value_error(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode_pane(data)


@given(panes(), st.integers(0, 300))
def test_pane_ends_after_the_metadata_of_the_element(pane: PaneInfo, size: int) -> None:
    metadata = beam_fn_api_pb2.Elements.ElementMetadata(
        drain=beam_fn_api_pb2.Elements.DrainMode.Enum.DRAINING,
        traceparent="t" * size,
        value_kind=beam_fn_api_pb2.Elements.ValueKind.DELETE,
    ).SerializeToString()
    first, *rest = encode_pane(pane)
    data = bytes((first | METADATA_BIT, *rest)) + encode_varint(len(metadata)) + metadata
    assert decode_pane(data + b"?") == (pane, len(data))
    assert skip_pane(data + b"?", 0) == len(data)
    for read in (lambda: decode_pane(data[:-1]), lambda: skip_pane(data[:-1], 0)):
        with pytest.raises(IndexError):
            read()
