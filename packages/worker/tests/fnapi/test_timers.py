"""Tests that timers are encoded and decoded byte for byte like Beam's timer coder."""

from __future__ import annotations

import random

import pytest
from apache_beam import coders
from apache_beam.transforms import userstate, window
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, PaneInfo, PaneInfoTiming
from beam_runner_model.chunks import StageTimer, TimerChunk
from beam_runner_model.lengths import skip_length_prefixed
from beam_runner_model.window_coders import SKIP_WINDOW, WindowCoder

from beam_runner_worker.errors import HarnessError
from beam_runner_worker.fnapi.timers import (
    TimerCoder,
    TimerReader,
    create_timer_messages,
    encode_timer,
)

FAMILY = ("transform", "family")
LAST_PANE = b"\x0f"
ORACLE = coders.coders._TimerCoder(coders.StrUtf8Coder(), coders.coders.IntervalWindowCoder())
READABLE = TimerCoder(skip_length_prefixed, SKIP_WINDOW[WindowCoder.INTERVAL])
PANES = [
    PANE_INFO_UNKNOWN,
    PaneInfo(True, False, PaneInfoTiming.EARLY, 0, 0),
    PaneInfo(False, False, PaneInfoTiming.LATE, 300, 1),
]


def random_timer(rng: random.Random) -> userstate.Timer:
    cleared = rng.random() < 0.3
    times = [rng.choice([MIN_TIMESTAMP, MAX_TIMESTAMP, Timestamp(rng.randrange(-99, 99))])] * 2
    windows = (window.IntervalWindow(rng.randrange(1000), 1000) for _ in range(rng.choice([1, 2])))
    return userstate.Timer(
        user_key="k" * rng.choice([0, 1, 200]),
        dynamic_timer_tag=rng.choice(["", "tag", "ümlaut" * 30]),
        windows=tuple(windows),
        clear_bit=cleared,
        fire_timestamp=None if cleared else times[0],
        hold_timestamp=None if cleared else times[1],
        paneinfo=None if cleared else rng.choice(PANES),
    )


@pytest.mark.parametrize("seed", range(20))
def test_timer_bytes_split_anywhere_decode_as_by_beam(seed: int):
    rng = random.Random(seed)
    encoded = [ORACLE.encode_nested(random_timer(rng)) for _ in range(20)]
    reader = TimerReader({FAMILY: READABLE}, "stage")
    data, timers = b"".join(encoded), []
    while data:
        length = rng.choice([1, 5, 50, 1000])
        timers += reader.read_timers(FAMILY, data[:length], is_last=len(data) <= length)
        data = data[length:]
    assert [encode_timer(timer) for timer in timers] == encoded
    for timer, each in zip(timers, encoded, strict=True):
        expected = ORACLE.decode(each)
        assert timer.tag == expected.dynamic_timer_tag
        assert timer.key == coders.StrUtf8Coder().get_impl().encode_nested(expected.user_key)
        assert len(timer.windows) == len(expected.windows)
        assert (timer.fire_at is None) == bool(expected.clear_bit)
        if timer.fire_at is not None:
            assert timer.fire_at == expected.fire_timestamp.micros // 1000
            assert timer.hold == expected.hold_timestamp.micros // 1000


def timer(family: str = "family", tag: str = "", key: bytes = b"\x01k") -> StageTimer:
    return StageTimer("transform", family, tag, key, (b"",), 5, None, LAST_PANE)


def test_timer_without_output_of_beam_is_read_as_timer_without_hold():
    beyond = Timestamp(micros=MAX_TIMESTAMP.micros + 1000)
    told = ORACLE.encode_nested(
        userstate.Timer(
            "k", "", (window.IntervalWindow(0, 9),), False, Timestamp(5), beyond, PANES[0]
        )
    )
    (read,) = TimerReader({FAMILY: READABLE}, "stage").read_timers(FAMILY, told, is_last=True)
    assert read.hold is None
    assert encode_timer(read) == told


def test_timer_messages_have_one_family_and_limited_size():
    few = [timer("f"), timer("f"), timer("g"), timer("f")]
    messages = list(create_timer_messages(TimerChunk(tuple(few))))
    assert [(m.transform_id, m.timer_family_id) for m in messages] == [
        ("transform", family) for family in "fgf"
    ]
    assert b"".join(m.timers for m in messages) == b"".join(map(encode_timer, few))
    many = TimerChunk(tuple(timer(tag="t" * 1000) for _ in range(5000)))
    sizes = [len(message.timers) for message in create_timer_messages(many)]
    assert len(sizes) == 5
    assert max(sizes) < (1 << 20) + 2000
    assert list(create_timer_messages(TimerChunk(()))) == []


def test_malformed_timer_bytes_are_reported():
    reader = TimerReader({FAMILY: READABLE}, "a stage")
    with pytest.raises(HarnessError, match="unknown family 'other'.*a stage"):
        list(reader.read_timers(("transform", "other"), b"", is_last=True))
    with pytest.raises(HarnessError, match="'family'.*are truncated"):
        list(reader.read_timers(FAMILY, b"\x05half", is_last=True))
