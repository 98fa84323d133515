"""Pipelines that need a service in one place each, and count the arrivals at their end.

All pipelines read numbers and use random keys, so that an attempt never repeats another attempt.
"""

from __future__ import annotations

import http.client
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import apache_beam as beam
import attrs
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from jobs import pickle_by_value
from offsets import WATERMARK, Offsets
from victims import ENDLESS, WINDOW, Count, Numbered, RandomKeys, check

PAD = 8_000
"""Bytes beside each number, which make a bundle too large for inline data."""
BATCH_COUNT = 400
_AT_ONCE = 10
_PAUSE_SECONDS = 0.25
_TIMEOUT_SECONDS = 5.0
_SIDE_ENTRIES, _SIDE_BYTES = 2_500, 8_000
"""Sizes beyond the memory limit, so that the side input has an index."""


class ServiceError(Exception):
    """The service answered with an error."""


@attrs.frozen
class Site:
    """Services of the pipelines.

    Attributes:
        service: address of the external service.
        raising: file that makes a step raise.
    """

    service: str
    raising: Path


def ask(address: str, path: str, body: str | None = None) -> str:
    """Returns the response of the service.

    Raises:
        OSError: the service is unreachable.
        http.client.HTTPException: the response is truncated.
        ServiceError: the service responds with an error.
    """
    host = urlsplit(address).netloc
    connection = http.client.HTTPConnection(host, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET" if body is None else "PUT", path, body)
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    if answer.status != 200:
        raise ServiceError(f"{address}{path} answers {answer.status}")
    return text


class Read(beam.DoFn):
    """Source of numbers, one per second of event time, until a file exists.

    Args:
        stop: path of this file.
        service: address of a service that limits the count of numbers; without a service, all
            numbers are available.
        name: name of the source at the service.
        defers: whether to defer during an outage; by default, the source raises.
    """

    def __init__(self, stop: Path, service: str = "", name: str = "", *, defers: bool = False):
        self._stop = stop
        self._service, self._name, self._defers = service, name, defers

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(Offsets()),
        estimator: Any = WATERMARK,
    ) -> Iterator[TimestampedValue]:
        position = tracker.current_restriction().start
        if self._stop.exists():
            tracker.try_claim(tracker.current_restriction().stop)
            return
        for _ in range(min(_AT_ONCE, self._ready() - position)):
            if not tracker.try_claim(position):
                return
            estimator.set_watermark(Timestamp(position))
            yield TimestampedValue(position, Timestamp(position))
            position += 1
        tracker.defer_remainder(Duration.of(_PAUSE_SECONDS))

    def _ready(self) -> int:
        if not self._service:
            return ENDLESS
        try:
            return int(ask(self._service, f"/numbers/{self._name}"))
        except (OSError, http.client.HTTPException, ServiceError):
            if not self._defers:
                raise
            return 0


class Write(beam.DoFn):
    """Writes the numbers of each bundle to a service, and hands them on."""

    def __init__(self, service: str, name: str) -> None:
        self._service, self._name = service, name
        self._numbers: list[int] = []

    def start_bundle(self) -> None:
        self._numbers = []

    def process(self, number: int) -> Iterator[int]:
        self._numbers.append(number)
        yield number

    def finish_bundle(self) -> None:
        if self._numbers:
            ask(self._service, f"/sink/{self._name}", "\n".join(map(str, self._numbers)))


class Raise(beam.DoFn):
    """DoFn that raises while a file exists, for one number of seven."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def process(self, number: int) -> Iterator[int]:
        if number % 7 == 3 and self._file.exists():
            raise RuntimeError(f"no {number} now")
        yield number


def _padded(numbers: beam.PCollection) -> beam.PCollection:
    """Has the numbers written to files, and read from them."""
    return (
        numbers
        | "pad" >> beam.Map(lambda n: (n, random.randbytes(PAD)))
        | "pads" >> beam.Reshuffle()
        | "unpad" >> beam.Keys()
    )


def _looked_up(numbers: beam.PCollection) -> beam.PCollection:
    """Looks each number up in a side input with an index."""
    entries = (
        numbers.pipeline
        | "entries" >> beam.Create(range(_SIDE_ENTRIES), reshuffle=False)
        | "contents"
        >> beam.Map(lambda n: (n, n.to_bytes(4, "big") + random.Random(n).randbytes(_SIDE_BYTES)))
    )

    def look(number: int, side: Mapping[int, bytes]) -> int:
        found = side[number % _SIDE_ENTRIES]
        return number - number % _SIDE_ENTRIES + int.from_bytes(found[:4], "big")

    return numbers | "look" >> beam.Map(look, beam.pvalue.AsDict(entries))


Steps = Callable[[beam.PCollection], beam.PCollection]


def stream(pipeline: beam.Pipeline, place: str, name: str, stop: Path, site: Site) -> None:
    """Builds a stream that is grouped, and counted by random keys in windows, with state and timers.

    Args:
        pipeline: pipeline to extend.
        place: part of the pipeline that needs a service, see `PLACES`.
        name: name of the source and sink at the service.
        stop: file that ends the stream.
        site: services of the pipeline.
    """
    read = Read(stop)
    if place.startswith("source"):
        read = Read(stop, site.service, name, defers=place == "source that defers")
    steps: dict[str, Steps] = {
        "data": _padded,
        "side input": _looked_up,
        "sink": lambda numbers: numbers | "write" >> beam.ParDo(Write(site.service, name)),
        "step": lambda numbers: numbers | "raise" >> beam.ParDo(Raise(site.raising)),
    }
    numbers = (
        pipeline | beam.Create([ENDLESS]) | beam.ParDo(read) | "given" >> beam.ParDo(Count("given"))
    )
    if place in steps:
        numbers = steps[place](numbers)
    arrivals = (
        numbers
        | "windows" >> beam.WindowInto(FixedWindows(WINDOW))
        | "five" >> beam.Map(lambda n: (random.randrange(5), n)).with_output_types(tuple[int, int])
        | "state" >> beam.ParDo(Numbered())
        | "second" >> beam.ParDo(Count("second"))
        | "by five" >> beam.GroupByKey()
        | "of five" >> beam.FlatMapTuple(lambda key, values: values)
        | "one window" >> beam.WindowInto(FixedWindows(10**9))
    )
    check(arrivals, None)


def batch(pipeline: beam.Pipeline, place: str, name: str, stop: Path, site: Site) -> None:
    """Builds a batch with a duration of some seconds and three shuffles, whose data is in files."""
    numbers = (
        pipeline
        | beam.Create(range(BATCH_COUNT))
        | beam.Reshuffle()
        | "given" >> beam.ParDo(Count("given", 0.02))
    )
    arrivals = (
        _padded(numbers)
        | beam.ParDo(RandomKeys(0.02))
        | beam.GroupByKey()
        | beam.FlatMapTuple(lambda key, values: values)
        | "second" >> beam.ParDo(Count("second"))
        | "arrivals" >> beam.Map(lambda n: (n, n, 0))
    )
    check(arrivals, BATCH_COUNT)


PLACES = ("data", "side input", "journal", "source", "source that defers", "sink", "step")
"""Parts of a stream that need a service; `journal` stands for the server's own needs in every job."""

pickle_by_value(__name__)
pickle_by_value("victims")
