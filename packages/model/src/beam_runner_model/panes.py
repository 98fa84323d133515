"""Panes: the position of an output among the firings of its window, and the encoding of panes.

The layout matches the windowed value coder of Beam's model (`beam:coder:windowed_value:v1`). In the
first byte, bit 0 means first, bit 1 means last, bits 2-3 hold the timing, and bits 4-6 hold the
number of varint indexes that follow. Bit 7 means that an element's metadata follows the indexes: a
varint length and an `ElementMetadata` of `beam_fn_api.proto`. Functions that skip a pane also skip the
metadata, so elements between stages keep it.
"""

from __future__ import annotations

import enum

import attrs

from beam_runner_model.varints import TruncatedData, decode_varint, encode_varint, skip_varint

METADATA_BIT = 0x80
"""Bit of the first byte of a pane that metadata follows (`beam:protocol:element_metadata:v1`)."""


class PaneTiming(enum.IntEnum):
    """Timing of a pane relative to the watermark and the end of the window."""

    EARLY = 0
    ON_TIME = 1
    LATE = 2
    UNKNOWN = 3


@attrs.frozen
class PaneInfo:
    """Position of an output among the firings of its window (Beam's pane info).

    `index` counts all firings from 0. `nonspeculative_index` counts the firings that aren't early,
    and is -1 on early firings.
    """

    is_first: bool = True
    is_last: bool = True
    timing: PaneTiming = PaneTiming.UNKNOWN
    index: int = 0
    nonspeculative_index: int = 0


NO_FIRING = PaneInfo()
"""Pane of an element that no trigger has fired."""

ONLY_FIRING = PaneInfo(timing=PaneTiming.ON_TIME)
"""Pane of a window that fires once, on time: the result of grouping bounded input."""


def encode_pane(pane: PaneInfo) -> bytes:
    """Encodes a pane as one byte and up to two varints."""
    first_byte = pane.is_first | pane.is_last << 1 | pane.timing << 2
    if pane.timing == PaneTiming.UNKNOWN or (pane.index == 0 and pane.nonspeculative_index == 0):
        return bytes((first_byte,))
    if pane.timing == PaneTiming.EARLY or pane.index == pane.nonspeculative_index:
        return bytes((first_byte | 1 << 4,)) + encode_varint(pane.index)
    indexes = encode_varint(pane.index) + encode_varint(pane.nonspeculative_index)
    return bytes((first_byte | 2 << 4,)) + indexes


def decode_pane(data: bytes, start: int = 0) -> tuple[PaneInfo, int]:
    """Decodes the pane at `data[start]`, without the element's metadata.

    Returns:
        The pane and the offset after the pane and the metadata.

    Raises:
        TruncatedData: If the data ends inside the pane.
        ValueError: If the bytes aren't an encoded pane.
    """
    if start >= len(data):
        raise TruncatedData(f"Can't decode a pane at byte {start}: {data!r} is too short")
    byte = data[start]
    timing = PaneTiming(byte >> 2 & 3)
    early = timing == PaneTiming.EARLY
    position = start + 1
    index = 0
    nonspeculative_index = -1 if early else 0
    match (byte & ~METADATA_BIT) >> 4:
        case 0:
            pass
        case 1:
            index, position = decode_varint(data, position)
            nonspeculative_index = -1 if early else index
        case 2:
            index, position = decode_varint(data, position)
            nonspeculative_index, position = decode_varint(data, position)
        case kind:
            raise ValueError(f"Can't decode the pane at byte {start}: encoding {kind} is unknown")
    if byte & METADATA_BIT:
        position = _skip_metadata(data, position)
    return PaneInfo(bool(byte & 1), bool(byte & 2), timing, index, nonspeculative_index), position


def skip_pane(data: bytes, position: int) -> int:
    """Returns the offset after the pane at `data[position]` and the element's metadata.

    Raises:
        IndexError: If the data ends inside the pane.
    """
    byte = data[position]
    position += 1
    if byte >> 4:
        for _ in range((byte & ~METADATA_BIT) >> 4):
            position = skip_varint(data, position)
        if byte & METADATA_BIT:
            position = _skip_metadata(data, position)
    return position


def _skip_metadata(data: bytes, position: int) -> int:
    length, position = decode_varint(data, position)
    if position + length > len(data):
        raise TruncatedData("Can't read the metadata of an element: the data is truncated")
    return position + length
