"""Values of metrics: decodes the payload of a `MetricCell` by its type."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

import attrs
from beam_runner_model.bundle_costs import BUNDLE_COSTS_TYPE, BundleCosts, decode_bundle_costs
from beam_runner_model.jobs import MetricCell
from beam_runner_model.varints import decode_varint
from beam_runner_urns import metrics as urns


@attrs.frozen
class Distribution:
    """The count, sum, minimum and maximum of the values."""

    count: int
    sum: float
    min: float
    max: float

    @property
    def mean(self) -> float:
        """The mean, or 0 without values."""
        return self.sum / self.count if self.count else 0.0


@attrs.frozen
class LatestValue:
    """A value and the time at which it was set (wall-clock ms)."""

    time: int
    value: float


MetricValue = (
    int | float | Distribution | BundleCosts | LatestValue | tuple[float, ...] | frozenset[str]
)


def decode_metric_value(info: MetricCell) -> MetricValue | None:
    """Returns the value of a metric from its encoded payload; None if the metric's type is unknown,
    or the payload is malformed.
    """
    read = _READERS.get(info.type)
    if read is None:
        return None
    try:
        return read(PayloadReader(info.payload))
    except BROKEN:
        return None


BROKEN = (LookupError, struct.error, ValueError)
"""The errors that `PayloadReader` raises for malformed data."""


class PayloadReader:
    """A reader of values in Beam's simple coders, from the start of a payload."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read_varint(self) -> int:
        value, self._at = decode_varint(self._data, self._at)
        return value

    def read_double(self) -> float:
        (value,) = struct.unpack_from(">d", self._data, self._at)
        self._at += 8
        return float(value)

    def read_count(self) -> int:
        (value,) = struct.unpack_from(">i", self._data, self._at)
        self._at += 4
        if not 0 <= value <= len(self._data):
            raise IndexError("an encoded metric has more items than bytes")
        return int(value)

    def read_bytes(self) -> bytes:
        """Returns the next length-prefixed bytes."""
        length = self.read_varint()
        piece = self._data[self._at : self._at + length]
        if len(piece) != length:
            raise IndexError("the data is truncated")
        self._at += length
        return piece

    def read_rest(self) -> bytes:
        """Returns all remaining bytes."""
        rest, self._at = self._data[self._at :], len(self._data)
        return rest

    @property
    def is_at_end(self) -> bool:
        """Returns whether the reader has reached the end."""
        return self._at == len(self._data)


def _read_doubles(data: PayloadReader) -> tuple[float, ...]:
    return tuple(data.read_double() for _ in range(data.read_count()))


def _read_integers(data: PayloadReader) -> tuple[float, ...]:
    return tuple(data.read_varint() for _ in range(data.read_count()))


_READERS: Mapping[str, Callable[[PayloadReader], MetricValue]] = {
    urns.SUM_INT64_TYPE: PayloadReader.read_varint,
    urns.SUM_DOUBLE_TYPE: PayloadReader.read_double,
    urns.DISTRIBUTION_INT64_TYPE: lambda data: Distribution(
        data.read_varint(), data.read_varint(), data.read_varint(), data.read_varint()
    ),
    urns.DISTRIBUTION_DOUBLE_TYPE: lambda data: Distribution(
        data.read_varint(), data.read_double(), data.read_double(), data.read_double()
    ),
    urns.LATEST_INT64_TYPE: lambda data: LatestValue(data.read_varint(), data.read_varint()),
    urns.LATEST_DOUBLE_TYPE: lambda data: LatestValue(data.read_varint(), data.read_double()),
    urns.TOP_N_INT64_TYPE: _read_integers,
    urns.TOP_N_DOUBLE_TYPE: _read_doubles,
    urns.BOTTOM_N_INT64_TYPE: _read_integers,
    urns.BOTTOM_N_DOUBLE_TYPE: _read_doubles,
    urns.PROGRESS_TYPE: _read_doubles,
    BUNDLE_COSTS_TYPE: lambda data: decode_bundle_costs(data.read_rest()),
    urns.SET_STRING_TYPE: lambda data: frozenset(
        data.read_bytes().decode() for _ in range(data.read_count())
    ),
}
