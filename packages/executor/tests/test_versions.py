"""Tests of the remarks about untested versions of Beam and Spark."""

from __future__ import annotations

from importlib.metadata import requires

import pytest
from beam_runner_runtime.versions import BEAM, SPARK, TestedVersions


@pytest.mark.parametrize("known", [BEAM, SPARK], ids=lambda known: known.name)
def test_tested_version_range_equals_package_metadata(known: TestedVersions) -> None:
    (bounds,) = [
        line
        for line in requires("beam-spark-executor") or ()
        if line.startswith(known.name) and "extra ==" not in line
    ]
    oldest = ".".join(map(str, known.oldest))
    after = f"{known.newest[0]}.{known.newest[1] + 1}"
    lower, upper = sorted(bounds.removeprefix(known.name).split(","), reverse=True)
    assert lower.removeprefix(">=").startswith(oldest)
    assert upper == f"<{after}"


@pytest.mark.parametrize("version", ["3.5.9", "4.0.0", "4.3.1", "4.3.0.dev1"])
def test_tested_versions_of_beam_and_spark_get_no_warning(version: str) -> None:
    assert SPARK.describe_untested_version(version) is None


def test_untested_versions_of_beam_and_spark_get_warning() -> None:
    assert (newer_beam := BEAM.describe_untested_version("2.90.0rc1"))
    assert "apache-beam 2.90.0rc1 is newer" in newer_beam
    assert "2.72 to 2.77" in newer_beam
    assert (newer_spark := SPARK.describe_untested_version("5.0.0-preview"))
    assert "pyspark 5.0.0-preview is newer" in newer_spark
    assert (older := SPARK.describe_untested_version("3.4.1"))
    assert "pyspark 3.4.1 is older" in older
    assert "3.5 to 4.3" in older
