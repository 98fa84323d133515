"""Beam transforms for Spark's tables and streams, Kafka, sinks that write each element once, and queues.

Importing this package loads nothing else, because the server imports it before it imports Beam.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beam_spark_io.delta.reading import ReadFromDelta
    from beam_spark_io.delta.sink import WriteToDelta
    from beam_spark_io.delta.streaming import ReadStreamFromDelta
    from beam_spark_io.exactly_once.transform import WriteExactlyOnce
    from beam_spark_io.files.sink import WriteFilesExactlyOnce
    from beam_spark_io.frames import from_dataframe, to_dataframe
    from beam_spark_io.iceberg.reading import ReadFromIceberg
    from beam_spark_io.iceberg.sink import WriteToIceberg
    from beam_spark_io.iceberg.streaming import ReadStreamFromIceberg
    from beam_spark_io.kafka.messages import KafkaHeader, KafkaMessage
    from beam_spark_io.kafka.sink import KafkaRecord, WriteToKafka
    from beam_spark_io.kafka.transform import ReadFromKafka
    from beam_spark_io.queues.queue import QueueMessage, QueueUnavailable
    from beam_spark_io.queues.reading import ReadFromQueue
    from beam_spark_io.reading import ReadFromSpark
    from beam_spark_io.sql.sink import WriteToSql
    from beam_spark_io.streaming import ReadStreamFromSpark
    from beam_spark_io.writing import WriteToSpark

__all__ = [
    "KafkaHeader",
    "KafkaMessage",
    "KafkaRecord",
    "QueueMessage",
    "QueueUnavailable",
    "ReadFromDelta",
    "ReadFromIceberg",
    "ReadFromKafka",
    "ReadFromQueue",
    "ReadFromSpark",
    "ReadStreamFromDelta",
    "ReadStreamFromIceberg",
    "ReadStreamFromSpark",
    "WriteExactlyOnce",
    "WriteFilesExactlyOnce",
    "WriteToDelta",
    "WriteToIceberg",
    "WriteToKafka",
    "WriteToSpark",
    "WriteToSql",
    "from_dataframe",
    "to_dataframe",
]

_HOMES = {
    "KafkaHeader": "kafka.messages",
    "KafkaMessage": "kafka.messages",
    "KafkaRecord": "kafka.sink",
    "QueueMessage": "queues.queue",
    "QueueUnavailable": "queues.queue",
    "ReadFromDelta": "delta.reading",
    "ReadFromIceberg": "iceberg.reading",
    "ReadFromQueue": "queues.reading",
    "ReadFromKafka": "kafka.transform",
    "ReadFromSpark": "reading",
    "ReadStreamFromDelta": "delta.streaming",
    "ReadStreamFromIceberg": "iceberg.streaming",
    "ReadStreamFromSpark": "streaming",
    "WriteExactlyOnce": "exactly_once.transform",
    "WriteFilesExactlyOnce": "files.sink",
    "WriteToDelta": "delta.sink",
    "WriteToIceberg": "iceberg.sink",
    "WriteToKafka": "kafka.sink",
    "WriteToSpark": "writing",
    "WriteToSql": "sql.sink",
    "from_dataframe": "frames",
    "to_dataframe": "frames",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
