"""Tests of streams whose number of key shards (hash partitions of keys) grows: all numbers count
once.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from beam_runner_model.updates import FindingReason
from edited import Edit
from update_servers import create_pipelines, list_jobs, roll_back, start_server
from updated import RUNNING_SECONDS, UpdatedStream, wait_for_state

pytestmark = pytest.mark.timeout(300)
AT_ONCE = "--beam_spark_update_quiet=0s"
"""The option that leaves waiting elements to the new job."""


def set_shards(number: int) -> str:
    return f"--beam_spark_key_shards={number}"


@pytest.mark.slow
def test_stream_whose_key_shards_grow_counts_each_number_once(tmp_path: Path) -> None:
    with start_server(tmp_path / "state", keep_failed_streams=3600.0) as server:
        updated = UpdatedStream.begin(create_pipelines(server), tmp_path, seconds=34)
        updated.wait_for_numbers(2.0)
        refused = updated.submit(Edit(), "--update", set_shards(4095))
        assert refused.wait() is JobState.FAILED
        with JobClient(server.address) as client:
            (finding,) = client.get_succession(refused.job_id).report.refused_findings
        assert finding.reason is FindingReason.KEY_SHARDS
        count = int(finding.before)
        updated.update(Edit(), set_shards(2 * count), AT_ONCE)
        updated.wait_for_numbers(1.5)
        updated.update(Edit(inserted=1), set_shards(6 * count))
        updated.wait_for_numbers(1.5)
        # The old program has fewer key shards in its options, and continues with all of them.
        assert roll_back(server.address) == 0
        last = list_jobs(server)[-1].job_id
        updated.release_end()
        wait_for_state(server.address, last, JobState.DONE, 2 * RUNNING_SECONDS)
        updated.check_results()


@pytest.mark.slow
def test_stream_from_savepoint_with_more_key_shards_counts_each_number_once(
    tmp_path: Path,
) -> None:
    url = str(tmp_path / "savepoint")
    with start_server(tmp_path / "first", keep_failed_streams=3600.0) as first:
        updated = UpdatedStream.begin(create_pipelines(first), tmp_path, seconds=14)
        updated.wait_for_results()
        job = updated.jobs[0]
        with JobClient(first.address) as client:
            client.cancel_job(job.job_id)
            assert job.wait() is JobState.CANCELLED
            client.make_savepoint(job.job_id, url)
        counted = updated.count_results()
    with start_server(tmp_path / "second", keep_failed_streams=3600.0) as second:
        updated.pipelines = create_pipelines(second)
        flags = (f"--beam_spark_from_savepoint={url}", set_shards(60))
        updated.release_end()
        assert updated.submit(Edit(), *flags).wait() is JobState.DONE
        results = updated.count_results()
    assert {name: counted[name] + results[name] for name in results} == updated.stream.results
