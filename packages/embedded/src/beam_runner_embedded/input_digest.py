"""DoFn that counts and hashes the input of a step, in place of the step, in a shadow run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from beam_runner_model.shadows import SHADOW_NAMESPACE, find_time_slot

_HASH_BYTES = 4
"""Size of the hash of an element. A sum of 2 ** 31 hashes fits into a counter."""


class DigestInput(beam.DoFn):
    """DoFn that counts and hashes its input elements by event time, and emits nothing.

    Args:
        start: start of the shadow run (ms since 1970).
    """

    def __init__(self, start: int) -> None:
        self._start = start

    def process(
        self,
        element: Any,
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> None:
        """Adds an element in one window to the counters of its time slot."""
        time = timestamp.micros // 1000
        slot = find_time_slot(time, self._start)
        digest = hash_value((element, time, repr(window)))
        name = f"{slot.start}:{slot.end}"
        Metrics.counter(SHADOW_NAMESPACE, f"elements:{name}").inc()
        Metrics.counter(SHADOW_NAMESPACE, f"hashes:{name}").inc(
            int.from_bytes(digest[:_HASH_BYTES], "big")
        )


def hash_value(value: Any) -> bytes:
    """Returns a hash of a decoded value of the model's standard coders.

    The order of the values of an iterable doesn't count, because groups have no order.
    """
    if isinstance(value, tuple):
        content = b"tuple " + b"".join(map(hash_value, value))
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        content = b"iterable " + b"".join(sorted(map(hash_value, value)))
    else:
        content = f"{type(value).__name__} {value!r}".encode()
    return hashlib.blake2b(content, digest_size=16).digest()
