"""DataFrames of the program's own Spark session as PCollections, and PCollections as DataFrames."""

from __future__ import annotations

import atexit
import uuid
from typing import TYPE_CHECKING, Any

from apache_beam import pvalue
from apache_beam.runners.runner import PipelineState
from apache_beam.transforms.ptransform import PTransform
from beam_runner_planner.table_specs import VIEW, InvalidTableSpec
from beam_runner_storage.temporary import TemporaryFolder

from beam_spark_io.reading import ReadFromSpark
from beam_spark_io.sessions import find_session
from beam_spark_io.writing import WriteToSpark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FromDataFrame(ReadFromSpark):
    """The transform of `from_dataframe`."""

    def __init__(self, frame: DataFrame) -> None:
        _check_frame(frame)
        name = f"{VIEW}{uuid.uuid4().hex}"
        frame.createGlobalTempView(name)
        super().__init__(table=f"global_temp.{name}", schema=frame.schema)

    def default_label(self) -> str:
        """Returns the transform's name in a pipeline."""
        return "from_dataframe"


def from_dataframe(frame: DataFrame) -> PTransform:
    """Reads the rows of a DataFrame, as `ReadFromSpark` does.

        people = pipeline | from_dataframe(spark.table("people").where("age > 17"))

    `from_dataframe` is for programs whose own SparkSession runs `BeamSparkRunner`, because a server
    in another process doesn't know the DataFrame. Spark computes the DataFrame each time that the
    pipeline runs. The DataFrame has a name in Spark's catalog until the session ends.

    Raises:
        ValueError: the argument is not a DataFrame, is a streaming DataFrame, has two columns with
            the same name, or has an unsupported type.
    """
    return FromDataFrame(frame)


def to_dataframe(rows: pvalue.PCollection, path: str = "", *, schema: Any = None) -> DataFrame:
    """Runs the whole pipeline of ``rows``, waits until the pipeline ends, and returns the rows as a
    DataFrame.

        pipeline = beam.Pipeline(runner=BeamSparkRunner())
        ages = pipeline | from_dataframe(frame) | beam.Map(lambda row: beam.Row(age=row.age + 1))
        to_dataframe(ages).show()

    The rows are stored as Parquet files, not in memory. Don't call this function within the
    ``with`` block of the pipeline, which would run the pipeline a second time. Each call runs the
    pipeline again, and leaves the rows of earlier calls unchanged.

    Args:
        rows: a bounded PCollection with columns that `WriteToSpark` accepts.
        path: a folder that executors can reach. Each call stores its files in a new folder inside
            it. Without `path`, the files are in a temporary folder until the program ends. That
            works only if Spark runs on this machine.
        schema: the columns, if the type of the elements doesn't define them.

    Raises:
        ValueError: `rows` is not a PCollection of rows, this program has no SparkSession, or a path
            is needed.
        RuntimeError: the pipeline failed, or did not finish.
    """
    if not isinstance(rows, pvalue.PCollection):
        raise InvalidTableSpec(f"to_dataframe needs a PCollection, but got a {type(rows).__name__}")
    session = find_session()
    if session is None:
        raise InvalidTableSpec(
            "to_dataframe returns a DataFrame of this program's SparkSession, but this"
            " program has none: create a SparkSession before the pipeline runs"
        )
    folder = f"{(path or _make_temporary_folder(session)).rstrip('/')}/rows-{uuid.uuid4().hex}"
    # A second run of the pipeline includes this write again, and must leave the earlier files
    # unchanged.
    _ = rows | f"to_dataframe({folder})" >> WriteToSpark(
        "parquet", folder, mode="ignore", schema=schema
    )
    state = rows.pipeline.run().wait_until_finish()
    if state != PipelineState.DONE:
        raise RuntimeError(
            f"to_dataframe returns no rows, because the pipeline is in state {state}"
            " instead of DONE"
        )
    return session.read.parquet(folder)


def _make_temporary_folder(session: SparkSession) -> str:
    master = str(session.sparkContext.master)
    if not master.startswith("local") or master.startswith("local-cluster"):
        raise InvalidTableSpec(
            f"Spark runs on other machines ({master}): pass to_dataframe a path= that"
            " those machines can reach"
        )
    folder = TemporaryFolder("frames-")
    atexit.register(folder.remove_folder)
    return str(folder.path)


def _check_frame(frame: Any) -> None:
    if not hasattr(frame, "createGlobalTempView"):
        raise InvalidTableSpec(
            f"from_dataframe needs a Spark DataFrame, but got a {type(frame).__name__}"
        )
    if frame.isStreaming:
        raise InvalidTableSpec(
            "from_dataframe needs a bounded DataFrame, but this DataFrame is a stream"
        )
    twice = [name for name in frame.columns if frame.columns.count(name) > 1]
    if twice:
        raise InvalidTableSpec(f"the DataFrame has two columns {twice[0]!r}: rename one of them")
