"""Invariant of every successful job: the number of bundles given to user code equals the number that
the job reports.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.metric_values import decode_metric_value
from beam_runner_model.jobs import JobState, MetricCell

_LOSSES = "beam_spark:job:losses:v1"
_BUNDLES = "beam_spark:stage:bundles_"
_ENDED_WELL = (JobState.DONE, JobState.DRAINED)


def find_unequal_attempts(infos: Iterable[MetricCell], *, whole: bool) -> list[str]:
    """Returns a sentence for each stage whose number of started bundles differs from the reported
    number.

    Args:
        infos: attempted metrics of a successful job.
        whole: whether one server ran the complete job. A server counts started bundles only since
            it took over the job.
    """
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for info in infos:
        if info.urn == _LOSSES and decode_metric_value(info):
            return []  # Skip the job, because its starts on an earlier server are unknown
        if info.urn.startswith(_BUNDLES):
            name = info.urn.removeprefix(_BUNDLES).partition(":")[0]
            counts[info.labels["PTRANSFORM"]][name] = decode_metric_value(info)
    odd = []
    for stage, count in counts.items():
        begun, committed = count["begun"], count["committed"]
        if begun > committed + count["failed"] + count["interrupted"] or (
            whole and begun < committed
        ):
            odd.append(f"{stage}: {count}")
    return odd


class AttemptsCheck:
    """Check of a server's jobs, once after the end of each job.

    Args:
        address: address of the server.
        whole: whether the server ran its jobs from their start.
    """

    def __init__(self, address: str, *, whole: bool) -> None:
        self._address = address
        self._whole = whole
        self._seen: set[str] = set()

    def check_finished_jobs(self) -> None:
        """Checks the jobs that finished since the last call.

        Raises:
            AssertionError: user code got a bundle again without a failed attempt.
        """
        odd = {}
        with JobClient(self._address) as client:
            for job in client.list_jobs():
                if job.state not in _ENDED_WELL or job.job_id in self._seen:
                    continue
                self._seen.add(job.job_id)
                found = find_unequal_attempts(
                    client.get_metrics(job.job_id).attempted, whole=self._whole
                )
                if found:
                    odd[f"{job.job_id} ({job.job_name})"] = found
        assert not odd, f"attempts that no job tells of: {odd}"
