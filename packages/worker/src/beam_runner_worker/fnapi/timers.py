"""Conversion of timers to and from the encoding of SDKs (``beam:coder:timer:v1``).

An encoded timer consists of the key, the dynamic tag, the windows (after their count in 4 bytes),
and a byte that is 1 for a cleared timer. For a set timer, three values follow: the firing time, the
hold timestamp and the pane.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs
from beam_runner_model.chunks import StageTimer, TimerChunk
from beam_runner_model.lengths import Skip, encode_count
from beam_runner_model.panes import skip_pane
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_model.value_pieces import PIECE_BYTES
from beam_runner_model.varints import TruncatedData, decode_varint, encode_varint
from beam_runner_model.window_coders import INSTANT_BYTES, decode_instant, encode_instant
from beam_runner_model.windowed_values import read_windows

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.errors import HarnessError

FamilyId = tuple[str, str]
"""Id of a stateful transform, and the local name of a timer family of the transform."""

_SET, _CLEARED = b"\x00", b"\x01"
_NO_HOLD = MAX_TIMESTAMP + 1
"""Hold timestamp that SDKs send for a timer without a hold. Such a timer must not emit elements when it fires."""


@attrs.frozen
class TimerCoder:
    """Layout of the encoded timers of one family: skip functions for the key and for a window."""

    key: Skip
    window: Skip


def encode_timer(timer: StageTimer) -> bytes:
    """Encodes a timer for an SDK."""
    tag = timer.tag.encode()
    head = (
        timer.key,
        encode_varint(len(tag)),
        tag,
        encode_count(len(timer.windows)),
        *timer.windows,
    )
    if timer.fire_at is None:
        return b"".join((*head, _CLEARED))
    hold = _NO_HOLD if timer.hold is None else timer.hold
    times = (encode_instant(timer.fire_at), encode_instant(hold))
    return b"".join((*head, _SET, *times, timer.pane))


def create_timer_messages(chunk: TimerChunk) -> Iterator[beam_fn_api_pb2.Elements.Timers]:
    """Yields messages with the timers of a chunk, in order. Each message has timers of one family,
    about 1 MiB at most.

    The caller must set the instruction id of each message.
    """
    parts: list[bytes] = []
    size = 0
    family: FamilyId = ("", "")
    for timer in chunk.timers:
        if parts and (size >= PIECE_BYTES or family != (timer.transform_id, timer.family)):
            yield _create_message(family, parts)
            parts, size = [], 0
        family = (timer.transform_id, timer.family)
        parts.append(encode_timer(timer))
        size += len(parts[-1])
    if parts:
        yield _create_message(family, parts)


def _create_message(family: FamilyId, parts: Iterable[bytes]) -> beam_fn_api_pb2.Elements.Timers:
    transform_id, name = family
    return beam_fn_api_pb2.Elements.Timers(
        transform_id=transform_id, timer_family_id=name, timers=b"".join(parts)
    )


class TimerReader:
    """Decoder of the timers that an SDK sets and clears during one bundle.

    Args:
        coders: layouts of all timer families of the stage.
        stage_name: name of the stage, for error messages.
    """

    def __init__(self, coders: Mapping[FamilyId, TimerCoder], stage_name: str) -> None:
        self._coders = coders
        self._stage_name = stage_name
        self._rests: dict[FamilyId, bytes] = {}

    def read_timers(self, family: FamilyId, data: bytes, is_last: bool) -> Iterator[StageTimer]:
        """Decodes and yields the timers that ``data`` completes, in the order in which they were set
        or cleared.

        Raises:
            HarnessError: The family is unknown, or its last data ends within a timer.
        """
        coder = self._coders.get(family)
        if coder is None:
            raise HarnessError(
                f"the SDK set a timer of the unknown family {family[1]!r} of the transform "
                f"{family[0]!r} in the stage {self._stage_name!r}"
            )
        data = self._rests.pop(family, b"") + data
        position = 0
        while position < len(data):
            try:
                timer, position = _decode_timer(family, coder, data, position)
            except IndexError:
                self._rests[family] = data[position:]
                break
            yield timer
        if is_last and family in self._rests:
            raise HarnessError(
                f"the timers that the SDK set for {family[1]!r} of the transform"
                f" {family[0]!r} in the stage {self._stage_name!r} are truncated"
            )


def _decode_timer(
    family: FamilyId, coder: TimerCoder, data: bytes, begin: int
) -> tuple[StageTimer, int]:
    """Decodes the timer at a position. Returns the timer and the position after it; raises IndexError
    if the data is truncated.
    """
    end_of_key = coder.key(data, begin)
    length, begin_of_tag = decode_varint(data, end_of_key)
    position = begin_of_tag + length
    windows, position = read_windows(data, position, coder.window)
    cleared = data[position] != 0
    position += 1
    fire_at = hold = None
    end = position
    if not cleared:
        fire_at = decode_instant(data, position)
        told = decode_instant(data, position + INSTANT_BYTES)
        hold = None if told > MAX_TIMESTAMP else told
        position += 2 * INSTANT_BYTES
        end = skip_pane(data, position)
        if end > len(data):
            raise TruncatedData("the data of a timer is truncated")
    timer = StageTimer(
        transform_id=family[0],
        family=family[1],
        tag=data[begin_of_tag : begin_of_tag + length].decode(),
        key=data[begin:end_of_key],
        windows=windows,
        fire_at=fire_at,
        hold=hold,
        pane=data[position:end],
    )
    return timer, end
