"""Costs of bundles: durations, CPU time and memory, as a metric that can be added.

The durations are a histogram with logarithmic buckets. A bucket is an eighth of a power of two, so that
a quantile is at most 7 % from the exact value. The size is bounded: 40 bytes, and 8 bytes for each
bucket; a day of microseconds has 270 buckets. Payloads are added without a conversion to a record,
because each commit of a bundle adds one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import accumulate

import attrs

BUNDLE_COSTS_TYPE = "beam_runner_model:bundle_costs:v1"
"""Type of a metric whose payload is the costs of bundles. A payload is a sequence of 8-byte
little-endian words: minimum, maximum and sum of the durations, the CPU time (all in microseconds), the
peak memory in bytes, and one word for each bucket of the histogram in ascending order, with the bucket's
number in the upper 16 bits and its count in the other bits. A peak of 0 means that neither CPU time nor
memory was measured.
"""
_MIN, _MAX, _SUM, _CPU, _PEAK, _FIRST_BUCKET = range(6)
_COUNT_BITS = 48
_COUNT_MASK = (1 << _COUNT_BITS) - 1
_STEP_BITS = 3
_STEPS = 1 << _STEP_BITS
_MOST_USECS = (1 << _COUNT_BITS) - 1
_SWAPS_BYTES = array("Q", (1,)).tobytes()[0] == 0


@attrs.frozen
class DurationSummary:
    """Summary of the durations of bundles, in seconds. The median and the 95th percentile are
    estimates from a histogram.
    """

    count: int
    min: float
    median: float
    p95: float
    max: float


@attrs.frozen
class BundleCosts:
    """Costs of bundles.

    Attributes:
        slot_seconds: the time for which the bundles used a slot.
        cpu_seconds: the CPU time of the threads that ran the bundles; None if not measured.
        peak_memory_bytes: the largest peak memory of a process that ran the bundles; None if not
            measured.
        durations: the durations of the finished bundles; None if no bundle has finished.
    """

    slot_seconds: float
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    durations: DurationSummary | None = None


def encode_bundle_costs(
    seconds: float,
    cpu_seconds: float = 0.0,
    peak_memory_bytes: int = 0,
    *,
    is_finished: bool = True,
) -> bytes:
    """Returns the payload with the costs of one bundle. The histogram omits an unfinished bundle."""
    usecs = min(max(0, int(seconds * 1e6)), _MOST_USECS)
    costs = (usecs, max(0, int(cpu_seconds * 1e6)), peak_memory_bytes)
    if not is_finished:
        return _encode_words(array("Q", (_MOST_USECS, 0, *costs)))
    bucket = (_find_bucket(usecs) << _COUNT_BITS) | 1
    return _encode_words(array("Q", (usecs, usecs, *costs, bucket)))


def add_bundle_costs(left: bytes, right: bytes) -> bytes:
    """Returns the payload with the costs of the bundles of two payloads.

    Raises:
        ValueError: a payload is malformed.
    """
    total, more = _decode_words(left), _decode_words(right)
    total[_MIN] = min(total[_MIN], more[_MIN])
    total[_MAX] = max(total[_MAX], more[_MAX])
    total[_SUM] += more[_SUM]
    total[_CPU] += more[_CPU]
    total[_PEAK] = max(total[_PEAK], more[_PEAK])
    for word in more[_FIRST_BUCKET:]:
        first = word & ~_COUNT_MASK
        at = bisect_left(total, first, _FIRST_BUCKET)
        if at < len(total) and total[at] & ~_COUNT_MASK == first:
            total[at] += word & _COUNT_MASK
        else:
            total.insert(at, word)
    return _encode_words(total)


def decode_bundle_costs(payload: bytes) -> BundleCosts:
    """Returns the costs in a payload.

    Raises:
        ValueError: the payload is malformed.
    """
    words = _decode_words(payload)
    peak = words[_PEAK]
    return BundleCosts(
        words[_SUM] / 1e6,
        words[_CPU] / 1e6 if peak else None,
        peak or None,
        _summarize_durations(words) if len(words) > _FIRST_BUCKET else None,
    )


def _summarize_durations(words: array[int]) -> DurationSummary:
    buckets = [(word >> _COUNT_BITS, word & _COUNT_MASK) for word in words[_FIRST_BUCKET:]]
    ends = list(accumulate(number for _, number in buckets))
    count = ends[-1]
    if not count or max(buckets)[0] > _LAST_BUCKET:
        raise ValueError("the costs of bundles have an empty histogram or an unknown bucket")
    least, most = words[_MIN], words[_MAX]

    def find_quantile(share: float) -> float:
        at = bisect_left(ends, share * count)
        return min(max(_find_middle(buckets[at][0]), least), most) / 1e6

    return DurationSummary(count, least / 1e6, find_quantile(0.5), find_quantile(0.95), most / 1e6)


def _find_bucket(usecs: int) -> int:
    """Returns the number of the bucket of a duration; the first buckets contain one microsecond each."""
    shift = max(0, usecs.bit_length() - 1 - _STEP_BITS)
    return (shift << _STEP_BITS) + (usecs >> shift)


_LAST_BUCKET = _find_bucket(_MOST_USECS)


def _find_middle(bucket: int) -> float:
    """Returns the middle of a bucket in microseconds."""
    if bucket < 2 * _STEPS:
        return float(bucket)
    shift = (bucket >> _STEP_BITS) - 1
    least = (bucket - (shift << _STEP_BITS)) << shift
    return least + (1 << shift) / 2


def _encode_words(words: array[int]) -> bytes:
    if _SWAPS_BYTES:
        words.byteswap()
    return words.tobytes()


def _decode_words(payload: bytes) -> array[int]:
    words = array("Q")
    words.frombytes(payload)
    if len(words) < _FIRST_BUCKET:
        raise ValueError("the costs of bundles are truncated")
    if _SWAPS_BYTES:
        words.byteswap()
    return words
