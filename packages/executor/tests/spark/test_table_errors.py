from __future__ import annotations

import pytest

from beam_spark_executor.spark.table_errors import explain_permanent_error


@pytest.mark.parametrize(
    "text",
    [
        "java.sql.SQLException: No suitable driver",
        "java.lang.ClassNotFoundException: org.postgresql.Driver",
        "java.lang.ClassNotFoundException: oracle.jdbc.OracleDriver",
    ],
)
def test_error_of_missing_jdbc_driver_is_explained_with_setting(text: str) -> None:
    said = explain_permanent_error(text)
    assert said.startswith("Spark has no JDBC driver")
    assert text.rpartition(": ")[2] in said
    assert "spark.jars.packages" in said


@pytest.mark.parametrize(
    "ending",
    [
        "/_temporary/0/_temporary/attempt_2026_0001_m_000000_1 (exists=false, cwd=file:/srv)",
        "/_beam-1-2/_temporary/0/attempt_1 (exists=false, cwd=file:/srv)",
        " (exists=false, cwd=file:/srv)",
        "",
    ],
)
def test_folder_that_spark_cannot_create_is_reported_with_its_path(ending: str) -> None:
    text = (
        "org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 0.0 in stage"
        f" 0.0 (TID 0): java.io.IOException: Mkdirs failed to create file:/proc/foo/out{ending}"
    )
    assert explain_permanent_error(text).startswith(
        "Spark can't create files in file:/proc/foo/out:"
    )


def test_path_below_a_file_is_reported_with_the_path() -> None:
    text = "org.apache.hadoop.fs.ParentNotDirectoryException: Parent path is not a directory: file:/a/b"
    assert explain_permanent_error(text).startswith("Spark can't create files in file:/a/b:")


@pytest.mark.parametrize(
    "text", ["java.io.IOException: No space left on device", "ClassNotFoundException: a.B", ""]
)
def test_table_error_without_known_cause_is_not_explained(text: str) -> None:
    assert explain_permanent_error(text) == ""
