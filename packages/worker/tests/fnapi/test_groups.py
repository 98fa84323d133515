"""Tests that groups are encoded as Beam's coders encode them, in byte strings of limited size."""

from __future__ import annotations

from apache_beam import coders
from apache_beam.coders import coder_impl
from apache_beam.coders import coders as beam_coders
from apache_beam.transforms import window
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming
from beam_runner_model.chunks import GroupChunk

from beam_runner_worker.fnapi.groups import encode_groups

PANE = PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)


def nested(coder: coders.Coder, value: object) -> bytes:
    stream = coder_impl.create_OutputStream()
    coder.get_impl().encode_to_stream(value, stream, True)
    return stream.get()


def decode(pieces: list[tuple[bytes, int]], windows: coders.Coder) -> list[tuple]:
    """Decodes groups as an SDK does: no element can cross the end of a byte string."""
    element = coders.TupleCoder([coders.StrUtf8Coder(), coders.IterableCoder(coders.VarIntCoder())])
    impl = beam_coders.WindowedValueCoder(element, windows).get_impl()
    found = []
    for piece, count in pieces:
        stream = coder_impl.create_InputStream(piece)
        for _ in range(count):
            value = impl.decode_from_stream(stream, True)
            found.append((*value.value, value.timestamp, *value.windows, value.pane_info))
        assert stream.size() == 0
    return found


def values(numbers: list[int]) -> bytes:
    return b"".join(nested(coders.VarIntCoder(), number) for number in numbers)


def test_encoded_groups_have_separate_windows():
    windows = beam_coders.IntervalWindowCoder()
    places = [window.IntervalWindow(-10, 5), window.IntervalWindow(0, 60)]
    chunk = GroupChunk(
        keys=[nested(coders.StrUtf8Coder(), key) for key in ("a", "")],
        windows=[nested(windows, place) for place in places],
        timestamps=[4999, -1],
        counts=[2, 0],
        values=[values([1, -1]), b""],
        pane=nested(_Pane(), PANE),
    )
    assert decode(list(encode_groups(chunk, 1 << 20)), windows) == [
        ("a", [1, -1], Timestamp(micros=4_999_000), places[0], PANE),
        ("", [], Timestamp(micros=-1000), places[1], PANE),
    ]


class _Pane(coders.Coder):
    def get_impl(self):
        return coder_impl.PaneInfoCoderImpl()


def test_many_encoded_groups_in_one_window_become_several_byte_strings():
    count = 5000
    numbers = list(range(200))
    chunk = GroupChunk(
        keys=[nested(coders.StrUtf8Coder(), f"key {i}") for i in range(count)],
        windows=b"",
        timestamps=[-9_223_372_036_854_775] * count,
        counts=[len(numbers)] * count,
        values=[memoryview(values(numbers))] * count,
        pane=b"\x0f",
    )
    pieces = list(encode_groups(chunk, 100_000))
    assert len(pieces) > 10
    assert all(100_000 <= len(piece) < 101_000 for piece, _ in pieces[:-1])
    found = decode(pieces, beam_coders.GlobalWindowCoder())
    assert [each[0] for each in found] == [f"key {i}" for i in range(count)]
    assert all(each[1] == numbers and each[2] == MIN_TIMESTAMP for each in found)
