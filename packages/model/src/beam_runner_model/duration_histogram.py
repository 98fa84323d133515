"""Histogram of durations with logarithmic buckets, for the metrics of bundles.

A bucket is an eighth of a power of two, so that a quantile is at most 7 % from the exact value. The
size is bounded: at most 24 bytes and 8 bytes for each bucket, and a day of microseconds has 270
buckets. Payloads are added without a conversion to a record, because each commit of a bundle adds one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import accumulate

import attrs

DURATION_HISTOGRAM_TYPE = "beam_runner_model:duration_histogram:v1"
"""Type of a metric whose payload is a histogram of durations. A payload is a sequence of 8-byte
little-endian words: the minimum and the maximum in microseconds, and one word for each bucket in
ascending order, with the bucket's number in the upper 16 bits and its count in the other bits.
"""
_COUNT_BITS = 48
_COUNT_MASK = (1 << _COUNT_BITS) - 1
_STEP_BITS = 3
_STEPS = 1 << _STEP_BITS
_MOST_USECS = (1 << _COUNT_BITS) - 1
_FIRST_BUCKET = 2
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


def encode_duration(seconds: float) -> bytes:
    """Returns the payload of a histogram that contains one duration."""
    usecs = min(max(0, int(seconds * 1e6)), _MOST_USECS)
    return _encode_words(array("Q", (usecs, usecs, (_find_bucket(usecs) << _COUNT_BITS) | 1)))


def add_duration_histograms(left: bytes, right: bytes) -> bytes:
    """Returns the payload of the sum of two histograms.

    Raises:
        ValueError: a payload is malformed.
    """
    total, more = _decode_words(left), _decode_words(right)
    total[0] = min(total[0], more[0])
    total[1] = max(total[1], more[1])
    for word in more[_FIRST_BUCKET:]:
        first = word & ~_COUNT_MASK
        at = bisect_left(total, first, _FIRST_BUCKET)
        if at < len(total) and total[at] & ~_COUNT_MASK == first:
            total[at] += word & _COUNT_MASK
        else:
            total.insert(at, word)
    return _encode_words(total)


def summarize_durations(payload: bytes) -> DurationSummary:
    """Returns the summary of a histogram.

    Raises:
        ValueError: the payload is malformed.
    """
    words = _decode_words(payload)
    buckets = [(word >> _COUNT_BITS, word & _COUNT_MASK) for word in words[_FIRST_BUCKET:]]
    ends = list(accumulate(number for _, number in buckets))
    count = ends[-1] if ends else 0
    if not count or max(buckets)[0] > _LAST_BUCKET:
        raise ValueError("a histogram of durations has no duration, or an unknown bucket")
    least, most = words[0], words[1]

    def find_quantile(share: float) -> float:
        at = bisect_left(ends, share * count)
        return min(max(_find_middle(buckets[at][0]), least), most) / 1e6

    return DurationSummary(count, least / 1e6, find_quantile(0.5), find_quantile(0.95), most / 1e6)


def _find_bucket(usecs: int) -> int:
    """Returns the number of the bucket of a duration; the first buckets contain one microsecond each."""
    shift = max(0, usecs.bit_length() - 1 - _STEP_BITS)
    return (shift << _STEP_BITS) + (usecs >> shift)


def _find_middle(bucket: int) -> float:
    """Returns the middle of a bucket in microseconds."""
    if bucket < 2 * _STEPS:
        return float(bucket)
    shift = (bucket >> _STEP_BITS) - 1
    least = (bucket - (shift << _STEP_BITS)) << shift
    return least + (1 << shift) / 2


_LAST_BUCKET = _find_bucket(_MOST_USECS)


def _encode_words(words: array[int]) -> bytes:
    if _SWAPS_BYTES:
        words.byteswap()
    return words.tobytes()


def _decode_words(payload: bytes) -> array[int]:
    words = array("Q")
    words.frombytes(payload)
    if len(words) < _FIRST_BUCKET:
        raise ValueError("a histogram of durations is truncated")
    if _SWAPS_BYTES:
        words.byteswap()
    return words
