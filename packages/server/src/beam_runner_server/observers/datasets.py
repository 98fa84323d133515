"""Conversion of the inputs and outputs in Beam's lineage metrics to OpenLineage's names.

Beam's transforms report names such as ``bigquery:project.dataset.table``. A name arrives as
segments, such as ``("gcs:", "bucket.", "folder/", "file")``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
from beam_runner_jobservices.metric_values import decode_metric_value
from beam_runner_jobservices.wire.tries import decode_bounded_trie
from beam_runner_model.jobs import JobMetrics, MetricCell
from beam_runner_urns import metrics as urns

_NAMESPACE = "lineage"
_STORES = {"gcs": "gs", "s3": "s3", "abs": "wasbs", "hdfs": "hdfs", "kafka": "kafka"}
"""OpenLineage's schemes of systems whose first name segment is a bucket or a server, by Beam's name of the system."""


@attrs.frozen(order=True)
class DatasetName:
    """Name of a dataset in OpenLineage's naming scheme."""

    namespace: str
    name: str


def read_datasets(metrics: JobMetrics) -> tuple[frozenset[DatasetName], frozenset[DatasetName]]:
    """Returns the inputs and the outputs of a job."""
    found: dict[str, set[DatasetName]] = {"sources": set(), "sinks": set()}
    for info in (*metrics.committed, *metrics.attempted):
        kind = info.labels.get(urns.LABEL_NAME, "").removesuffix("_v2")
        if info.labels.get(urns.LABEL_NAMESPACE) == _NAMESPACE and kind in found:
            found[kind].update(map(convert_name, _iterate_names(info)))
    return frozenset(found["sources"]), frozenset(found["sinks"])


def convert_name(segments: Sequence[str]) -> DatasetName:
    """Returns OpenLineage's name for the segments of a name in Beam."""
    system, _, rest = "".join(segments).partition(":")
    if system == "filesystem":
        return DatasetName("file", rest.removeprefix("localhost."))
    first, name = _split_first_segment(rest)
    if system in _STORES and name:
        path = f"/{name}" if system == "hdfs" and not name.startswith("/") else name
        return DatasetName(f"{_STORES[system]}://{first}", path)
    return DatasetName(system, rest)


def _split_first_segment(text: str) -> tuple[str, str]:
    """Returns the first segment of a dotted name, and the rest. Backticks quote a segment that
    contains dots.
    """
    if text.startswith("`"):
        first, _, rest = text[1:].partition("`")
        return first, rest.removeprefix(".").strip("`")
    first, _, rest = text.partition(".")
    return first, rest.strip("`")


def _iterate_names(info: MetricCell) -> Iterator[Sequence[str]]:
    """Yields the names in a metric. A truncated name ends with a star."""
    if info.type == urns.BOUNDED_TRIE_TYPE:
        for path in decode_bounded_trie(info.payload):
            yield (*path.segments, "*") if path.is_truncated else path.segments
        return
    value = decode_metric_value(info)
    if isinstance(value, frozenset):
        yield from ((name,) for name in value)
