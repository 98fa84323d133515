"""Names in Beam's lineage metrics become names of OpenLineage."""

from __future__ import annotations

import struct

import pytest
from apache_beam.metrics.cells import BoundedTrieData
from apache_beam.metrics.metric import Lineage
from beam_runner_model.jobs import JobMetrics, MetricCell
from beam_runner_urns import metrics as urns

from beam_runner_server.observers.datasets import DatasetName, convert_name, read_datasets


def _parts(system: str, *segments: str, separator: str | None = None) -> tuple[str, ...]:
    return tuple(Lineage._get_fqn_parts(system, *segments, last_segment_sep=separator))


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        (_parts("filesystem", "localhost", "/tmp/a.txt", separator="/"), ("file", "/tmp/a.txt")),
        (_parts("gcs", "bucket", "folder/a.txt", separator="/"), ("gs://bucket", "folder/a.txt")),
        (_parts("s3", "`my.bucket`", "a", separator="/"), ("s3://my.bucket", "a")),
        (_parts("bigquery", "project", "set", "table"), ("bigquery", "project.set.table")),
        (_parts("kafka", "`host:9092`", "topic"), ("kafka://host:9092", "topic")),
        (_parts("gcs", "bucket"), ("gcs", "bucket")),
    ],
)
def test_lineage_dataset_name_follows_scheme_of_openlineage(
    segments: tuple[str, ...], expected: tuple[str, str]
) -> None:
    assert convert_name(segments) == DatasetName(*expected)


def _cell(name: str, kind: str, payload: bytes) -> MetricCell:
    labels = {urns.LABEL_NAMESPACE: "lineage", urns.LABEL_NAME: name}
    return MetricCell("beam:metric:user:any:v1", kind, payload, labels)


def test_truncated_lineage_dataset_names_end_with_star() -> None:
    data = BoundedTrieData(bound=2)
    for file in ("a", "b", "c"):
        path = ("filesystem:", "localhost.", "/", "tmp/", file)
        data = data.combine(BoundedTrieData(singleton=path, bound=2))
    cell = _cell("sinks_v2", urns.BOUNDED_TRIE_TYPE, data.to_proto().SerializeToString())
    inputs, outputs = read_datasets(JobMetrics((cell,), ()))
    assert inputs == frozenset()
    assert outputs == {DatasetName("file", "/tmp/*")}


def test_lineage_metrics_of_older_sdks_are_read() -> None:
    name = b"bigquery:project.set.table"
    payload = struct.pack(">i", 1) + bytes([len(name)]) + name
    cell = _cell("sources", urns.SET_STRING_TYPE, payload)
    inputs, outputs = read_datasets(JobMetrics((), (cell,)))
    assert inputs == {DatasetName("bigquery", "project.set.table")}
    assert outputs == frozenset()


def test_only_lineage_metrics_become_datasets() -> None:
    cell = MetricCell("beam:metric:user:any:v1", urns.SUM_INT64_TYPE, b"\1", {"NAME": "sources"})
    assert read_datasets(JobMetrics((cell,), (cell,))) == (frozenset(), frozenset())
