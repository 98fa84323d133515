"""`ReadFromKafka`, which reads topics by librdkafka's Python client, without Java.

The transform consists of two splittable DoFns: the first finds the partitions of each topic, and
the second reads them. Offsets are part of restrictions, so the runner commits them together with
the records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection

from beam_spark_io.kafka.client import check_config
from beam_spark_io.kafka.connection import OWN_PROPERTIES, KafkaConnection
from beam_spark_io.kafka.dofns import (
    DiscoverPartitions,
    DiscoverPartitionsForever,
    DiscoverySettings,
    ReadPartitions,
    ReadPartitionsForever,
)
from beam_spark_io.kafka.messages import KafkaMessage
from beam_spark_io.kafka.partition_reader import ReadSettings
from beam_spark_io.kafka.ports import Connect
from beam_spark_io.kafka.positions import (
    COMMITTED,
    EARLIEST,
    LATEST,
    KafkaOffsets,
    make_position,
)
from beam_spark_io.kafka.timestamps import (
    PROCESSING_TIME,
    TimestampFunction,
    make_timestamp_policy,
)

FAIL = "fail"
SKIP = "skip"


class ReadFromKafka(beam.PTransform):
    """Transform that reads the records of Kafka topics as `KafkaMessage` elements.

    The pipeline gets each record once. The job's state has the offsets, so a consumer group isn't
    needed. Without `stop`, the read is a stream. The transform needs the extra ``kafka``.

    Args:
        config: properties of librdkafka, with ``bootstrap.servers``. ``isolation.level`` is
            ``read_committed`` by default.
        topics: a topic, or several ones.
        start: the position at which the partitions start: ``earliest``, ``latest``, ``committed`` (the
            offsets of the consumer group ``group.id``), a time, or offsets by topic and partition.
            Partitions without a committed or given offset start at the earliest one.
        stop: the position at which the read ends: ``latest``, a time, or offsets by topic and partition.
            Partitions without an offset end at the latest one. Each position is looked up once, when the
            job starts.
        timestamp_policy: the event time of a record: ``ProcessingTime``, ``LogAppendTime``,
            ``CreateTime``, or a function that gets a `KafkaMessage` and returns seconds since 1970.
        max_delay: seconds by which the watermark is behind the latest event time, for ``CreateTime``
            and functions. Records that are later than this are late data.
        discover_every: seconds between two looks for new partitions. The watermark is behind the clock
            by this time, so that records of new partitions aren't late. None ends the discovery.
        poll_seconds: the longest pause before the next look at a partition without new records.
        on_data_loss: ``fail``, or ``skip`` to continue if the broker has deleted records before the job
            read them.
        commit_offsets: whether the transform stores offsets for the consumer group ``group.id`` after
            the commit of each bundle, for monitoring, and for a later job with the start ``committed``.
        patience: seconds for which the start of a job, and a bounded read, wait for absent brokers. A
            running stream waits without a limit.

    Raises:
        ValueError: An argument is wrong.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topics: str | Sequence[str],
        *,
        start: str | datetime | KafkaOffsets = EARLIEST,
        stop: str | datetime | KafkaOffsets | None = None,
        timestamp_policy: str | TimestampFunction = PROCESSING_TIME,
        max_delay: float = 0.0,
        discover_every: float | None = 1.0,
        poll_seconds: float = 0.2,
        on_data_loss: str = FAIL,
        commit_offsets: bool = False,
        patience: float = 30.0,
    ) -> None:
        super().__init__()
        check_config(config, "ReadFromKafka", OWN_PROPERTIES)
        self._topics = [topics] if isinstance(topics, str) else list(dict.fromkeys(topics))
        if not self._topics or not all(isinstance(one, str) and one for one in self._topics):
            raise ValueError(
                f"topics is {topics!r}; expected the name of a topic, or several names"
            )
        first = make_position("start", start, (EARLIEST, LATEST, COMMITTED), EARLIEST)
        last = None if stop is None else make_position("stop", stop, (LATEST,), LATEST)
        if (commit_offsets or first.kind == COMMITTED) and "group.id" not in config:
            raise ValueError("config lacks group.id, the consumer group of the offsets")
        for name, value in (("discover_every", discover_every), ("poll_seconds", poll_seconds)):
            if value is not None and value <= 0:
                raise ValueError(f"{name} is {value!r}; expected more than 0 seconds")
        if on_data_loss not in (FAIL, SKIP):
            raise ValueError(f"on_data_loss is {on_data_loss!r}; expected {FAIL!r} or {SKIP!r}")
        policy = make_timestamp_policy(timestamp_policy, max_delay)
        every = discover_every if last is None else None
        self._connect: Connect = partial(KafkaConnection, dict(config))
        self._discovery = DiscoverySettings(first, last, every, policy, patience)
        self._reading = ReadSettings(policy, poll_seconds, on_data_loss == SKIP, patience)
        self._commits = commit_offsets

    def expand(self, pbegin: PBegin) -> PCollection[KafkaMessage]:
        """Returns the records."""
        is_stream = self._discovery.stop is None
        discover = DiscoverPartitionsForever if is_stream else DiscoverPartitions
        read = ReadPartitionsForever if is_stream else ReadPartitions
        partitions = (
            pbegin
            | "Topics" >> beam.Create(self._topics, reshuffle=False)
            | "Partitions"
            >> beam.ParDo(discover(self._connect, self._discovery)).with_output_types(
                tuple[str, int, int, int]
            )
        )
        records: PCollection[KafkaMessage] = partitions | "Records" >> beam.ParDo(
            read(self._connect, self._reading, commits=self._commits)
        ).with_output_types(KafkaMessage)
        return records

    def default_label(self) -> str:
        """Returns the transform's name in a pipeline."""
        return f"ReadFromKafka({', '.join(self._topics)})"
