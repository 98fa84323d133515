"""Tests that chunks become messages of limited size with exactly the selected elements."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator

import pytest
from apache_beam import coders
from beam_runner_model.chunks import ElementChunk, FlushBarrier, GroupChunk, InputChunk, TimerChunk
from beam_runner_model.value_pieces import PIECE_BYTES
from test_chunking import GLOBAL, INTERVAL, edge_of, encode, windowed

from beam_runner_worker.fnapi.chunking import EdgeCoder, compile_edge_coder
from beam_runner_worker.fnapi.messages import InputMessage, create_input_messages, split_at_flushes

TEXT = coders.StrUtf8Coder()


def layout(windows: coders.Coder) -> EdgeCoder:
    coder_id, protos = edge_of(TEXT, windows)
    return compile_edge_coder(coder_id, protos, "source")


def groups(count: int) -> GroupChunk:
    return GroupChunk([b"k"] * count, b"", [0] * count, [1] * count, [b"v" * 1000] * count, b"\x0f")


def test_small_chunks_are_joined_to_one_message():
    chunks = [ElementChunk(1, b"ab"), ElementChunk(2, memoryview(b"cde"))]
    (message,) = create_input_messages(chunks, None)
    assert (message.data, message.count) == (b"abcde", 3)
    assert list(create_input_messages([], None)) == []


def test_many_groups_become_several_messages():
    messages = list(create_input_messages([groups(1500), groups(1500)], None))
    assert [len(each.data) >= PIECE_BYTES for each in messages] == [True, True, False]
    assert sum(each.count for each in messages) == 3000
    assert len({len(each.data) / each.count for each in messages}) == 1


def test_input_is_read_message_by_message():
    pulled = itertools.count()

    def endless():
        while True:
            next(pulled)
            yield groups(1100)

    messages = create_input_messages(endless(), None)
    next(messages)
    next(messages)
    assert next(pulled) == 2


@pytest.mark.parametrize("size", [1, 1000, PIECE_BYTES, 3 * PIECE_BYTES])
def test_large_chunk_is_split_into_messages_between_elements(size: int):
    count = 5 * PIECE_BYTES // size + 3
    data = random.Random(size).randbytes(size * count)
    ends = range(size, size * count + 1, size)
    for first, last in [(0, None), (1, count - 1), (count // 2, count)]:
        chunk = ElementChunk(count, data, ends, first=first, last=last)
        messages = list(create_input_messages([chunk], None))
        meant = data[first * size : size * (count if last is None else last)]
        assert b"".join(each.data for each in messages) == meant
        assert all(len(each.data) == each.count * size for each in messages)
        assert max(len(each.data) for each in messages) <= max(size, 2 * PIECE_BYTES)


@pytest.mark.parametrize("windows", [GLOBAL, INTERVAL], ids=["global", "interval"])
@pytest.mark.parametrize("with_ends", [False, True])
def test_messages_contain_only_selected_elements(windows: coders.Coder, with_ends: bool):
    rng = random.Random(5)
    values = [windowed(rng, "x" * rng.choice([0, 1, 127, 128, 300]), windows) for _ in range(40)]
    encoded = encode(values, TEXT, windows)
    data = memoryview(b"".join(encoded))
    ends = list(itertools.accumulate(map(len, encoded))) if with_ends else None
    for first, last in [(0, 0), (0, 1), (0, 40), (7, None), (39, 40), (40, 40), (13, 29)]:
        chunk = ElementChunk(40, data, ends, first=first, last=last)
        messages = list(create_input_messages([chunk], layout(windows)))
        meant = encoded[first : 40 if last is None else last]
        assert b"".join(each.data for each in messages) == b"".join(meant)
        assert sum(each.count for each in messages) == chunk.selected_count == len(meant)


def test_chunk_with_missing_elements_is_refused():
    data = b"".join(encode([windowed(random.Random(1), "abc", GLOBAL)] * 2, TEXT, GLOBAL))
    for cut in (data, data[:-1], data[:-5]):
        with pytest.raises(ValueError, match="fewer elements than its header states"):
            list(create_input_messages([ElementChunk(3, cut, first=1)], layout(GLOBAL)))


def consumed(inputs: Iterable[InputChunk]) -> list[list[object]]:
    return [list(segment) for segment in split_at_flushes(inputs)]


def test_messages_are_divided_at_flush_barriers():
    a, b, c = ElementChunk(1, b"a"), ElementChunk(1, b"b"), TimerChunk(())
    assert consumed([a, b, FlushBarrier(), c, FlushBarrier()]) == [[a, b], [c]]
    assert consumed([a, FlushBarrier(), FlushBarrier(), b, c]) == [[a], [b, c]]
    assert consumed([FlushBarrier(), a]) == [[], [a]]
    assert consumed([FlushBarrier()]) == consumed([]) == [[]]


def test_messages_after_flush_barrier_start_after_previous_part_is_consumed():
    asked: list[int] = []

    def inputs() -> Iterator[InputChunk]:
        for number in range(3):
            asked.append(number)
            yield ElementChunk(1, b"")
            yield FlushBarrier()

    for number, segment in enumerate(split_at_flushes(inputs())):
        assert asked == list(range(number + 1 if number else 0))
        list(segment)
        assert asked == list(range(number + 1))


def test_timers_in_messages_keep_their_position_between_elements():
    one, two = ElementChunk(1, b"a"), ElementChunk(2, b"b")
    timers = TimerChunk(())
    found = list(create_input_messages([one, two, timers, timers, one], None))
    assert found == [InputMessage(b"ab", 3), timers, timers, InputMessage(b"a", 1)]
