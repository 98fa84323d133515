"""Panes: which firing of its window an output is, and how that is written in an encoded element.

The byte layout is that of the windowed value coder of Beam's model
(`beam:coder:windowed_value:v1`): bit 0 first, bit 1 last, bits 2-3 timing, bits 4-7 how many
indexes follow as varints.
"""

from __future__ import annotations

import enum

import attrs

from beam_runner_model.varints import CutOff, decode_varint, encode_varint, skip_varint


class PaneTiming(enum.IntEnum):
    """When a pane was fired, seen from the watermark and the end of its window."""

    EARLY = 0
    ON_TIME = 1
    LATE = 2
    UNKNOWN = 3


@attrs.frozen
class PaneInfo:
    """Which firing of its window an output comes from.

    `index` counts all firings from 0; `nonspeculative_index` those that are not early, -1 on early
    ones.
    """

    is_first: bool = True
    is_last: bool = True
    timing: PaneTiming = PaneTiming.UNKNOWN
    index: int = 0
    nonspeculative_index: int = 0


NO_FIRING = PaneInfo()
"""The pane of an element that no trigger has fired."""

ONLY_FIRING = PaneInfo(timing=PaneTiming.ON_TIME)
"""The only pane of a window that fires once, on time: what grouping bounded input gives."""


def encode_pane(pane: PaneInfo) -> bytes:
    """Encodes a pane in one byte and up to two varints."""
    first_byte = pane.is_first | pane.is_last << 1 | pane.timing << 2
    if pane.timing == PaneTiming.UNKNOWN or (pane.index == 0 and pane.nonspeculative_index == 0):
        return bytes((first_byte,))
    if pane.timing == PaneTiming.EARLY or pane.index == pane.nonspeculative_index:
        return bytes((first_byte | 1 << 4,)) + encode_varint(pane.index)
    indexes = encode_varint(pane.index) + encode_varint(pane.nonspeculative_index)
    return bytes((first_byte | 2 << 4,)) + indexes


def decode_pane(data: bytes, start: int = 0) -> tuple[PaneInfo, int]:
    """Decodes the pane that begins at `data[start]`; returns it and the position after it.

    Raises ValueError when the bytes are not a pane.
    """
    if start >= len(data):
        raise CutOff(f"no pane at byte {start} of {data!r}")
    byte = data[start]
    timing = PaneTiming(byte >> 2 & 3)
    early = timing == PaneTiming.EARLY
    position = start + 1
    index = 0
    nonspeculative_index = -1 if early else 0
    match byte >> 4:
        case 0:
            pass
        case 1:
            index, position = decode_varint(data, position)
            nonspeculative_index = -1 if early else index
        case 2:
            index, position = decode_varint(data, position)
            nonspeculative_index, position = decode_varint(data, position)
        case kind:
            raise ValueError(f"the pane at byte {start} has the unknown encoding {kind}")
    return PaneInfo(bool(byte & 1), bool(byte & 2), timing, index, nonspeculative_index), position


def skip_pane(data: bytes, position: int) -> int:
    """Returns the position after the pane that begins at `data[position]`.

    Raises IndexError when the data ends inside it.
    """
    indexes = data[position] >> 4
    position += 1
    for _ in range(indexes):
        position = skip_varint(data, position)
    return position
