"""Compared programs, which count the records of each key of a topic in state, and write each record with its
count into another topic: a pipeline of this runner, and a query of Spark's Structured Streaming.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from beam_spark_io import KafkaMessage, KafkaRecord, ReadFromKafka, WriteToKafka
from pyspark import cloudpickle as cloudpickle_of_spark
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from topic_traffic import PARTITIONS

_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_RESULT = "key string, value string"
_LOOK_SECONDS = 0.05


def pickle_by_value() -> None:
    """Pickles the functions of this module by value, because workers can't import the module."""
    for pickler in (cloudpickle, cloudpickle_of_spark):
        pickler.register_pickle_by_value(sys.modules[__name__])


class CountRecords(beam.DoFn):
    """DoFn that appends the count of the key to each value."""

    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def process(
        self, element: tuple[bytes, bytes], count: Any = beam.DoFn.StateParam(COUNT)
    ) -> Iterator[KafkaRecord]:
        key, value = element
        so_far = (count.read() or 0) + 1
        count.write(so_far)
        yield KafkaRecord(b"%s %d" % (value, so_far), key)


def make_pair(message: KafkaMessage) -> tuple[bytes, bytes]:
    """Returns the key and the value of a record."""
    assert message.key is not None
    assert message.value is not None
    return message.key, message.value


def submit_pipeline(server: str, broker: str, source: str, target: str) -> Any:
    """Submits the pipeline to a server of this runner, and returns its result."""
    config = {"bootstrap.servers": broker}
    options = ["--runner=PortableRunner", f"--job_endpoint={server}", "--streaming"]
    pipeline = beam.Pipeline(options=PipelineOptions(options))
    _ = (
        pipeline
        | ReadFromKafka(config, source)
        | beam.Map(make_pair).with_output_types(tuple[bytes, bytes])
        | beam.ParDo(CountRecords())
        | WriteToKafka(config, target, shards=PARTITIONS)
    )
    return pipeline.run()


class CountFrames(StatefulProcessor):
    """Processor of Spark that appends the count of the key to each value."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark before any other method."""
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        """Called by Spark with the rows of a key in a micro-batch."""
        import pandas as pd

        count = self._count.get()[0] if self._count.exists() else 0
        values = []
        for frame in rows:
            for value in frame["value"].tolist():
                count += 1
                values.append(f"{value} {count}")
        self._count.update((count,))
        yield pd.DataFrame({"key": [key[0]] * len(values), "value": values})


def start_spark(connector: str) -> SparkSession:
    """Returns a session with Kafka's connector, two shuffle partitions, and the state store of
    `transformWithState`; other settings are Spark's defaults.

    Spark's Python workers log each micro-batch to Java's standard error, which is discarded.
    """
    settings = {
        "spark.jars.packages": connector,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.pyspark.python": sys.executable,
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.streaming.stateStore.providerClass": _STORE,
        # A stopped query logs the interruption of its tasks as errors.
        "spark.log.level": "OFF",
    }
    before, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        return SparkSession.builder.master("local[*]").config(map=settings).getOrCreate()
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


def start_query(session: SparkSession, broker: str, source: str, target: str, folder: Path) -> Any:
    """Starts the query, and returns it."""
    records = session.readStream.format("kafka").options(
        **{
            "kafka.bootstrap.servers": broker,
            "subscribe": source,
            "startingOffsets": "earliest",
        }
    )
    pairs = records.load().selectExpr("cast(key as string)", "cast(value as string)")
    counted = pairs.groupBy("key").transformWithStateInPandas(
        CountFrames(), _RESULT, "Update", "None"
    )
    sink = counted.writeStream.format("kafka").outputMode("update")
    options = {
        "kafka.bootstrap.servers": broker,
        "topic": target,
        "checkpointLocation": str(folder / f"checkpoint-{time.time_ns()}"),
    }
    return sink.options(**options).start()
