"""Tests that a job that starts from a savepoint counts each number once, also on another server."""

from __future__ import annotations

from pathlib import Path

import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_model.jobs import JobState
from edited import Edit
from update_servers import create_pipelines, start_server
from updated import UpdatedStream

pytestmark = pytest.mark.timeout(300)


def test_savepoint_of_a_cancelled_stream_continues_on_another_server(tmp_path: Path) -> None:
    url = str(tmp_path / "savepoint")
    with start_server(tmp_path / "first", keep_failed_streams=3600.0) as first:
        updated = UpdatedStream.begin(create_pipelines(first), tmp_path, seconds=12)
        updated.wait_for_results()
        job = updated.jobs[0]
        job.cancel()
        assert job.wait() is JobState.CANCELLED
        with JobClient(first.address) as client:
            made = client.make_savepoint(job.job_id, url)
            with pytest.raises(JobApiError, match="already contains a savepoint"):
                client.make_savepoint(job.job_id, url)
        counted = updated.count_results()
    assert made.job_id == job.job_id
    assert made.files == len(list(Path(url).glob("data-*")))
    with start_server(tmp_path / "second", keep_failed_streams=3600.0) as second:
        updated.pipelines = create_pipelines(second)
        last = updated.submit(Edit(inserted=1), f"--beam_spark_from_savepoint={url}")
        updated.release_end()
        assert last.wait() is JobState.DONE, [m.text for m in last.messages()][-3:]
        results = updated.count_results()
    assert {name: counted[name] + results[name] for name in results} == updated.stream.results
    assert 0 < sum(counted.values()) < sum(updated.stream.results.values())


@pytest.mark.slow
def test_stream_continues_during_its_savepoint(tmp_path: Path) -> None:
    url = (tmp_path / "savepoint").as_uri()
    with start_server(tmp_path / "state", keep_failed_streams=3600.0) as server:
        updated = UpdatedStream.begin(create_pipelines(server), tmp_path, seconds=12)
        updated.wait_for_results()
        first = updated.jobs[0]
        with JobClient(server.address) as client:
            client.make_savepoint(first.job_id, url)
        assert first.state() is JobState.RUNNING
        updated.release_end()
        assert first.wait() is JobState.DONE
        assert updated.count_results() == updated.stream.results
        flags = (f"--beam_spark_from_savepoint={url}", "--beam_spark_update=check")
        assert updated.submit(Edit(), *flags).wait() is JobState.DONE
        copy = updated.submit(Edit(), flags[0])
        assert copy.wait() is JobState.DONE
        both = updated.count_results()
    again = {name: both[name] - count for name, count in updated.stream.results.items()}
    assert 0 < sum(again.values()) < sum(updated.stream.results.values())


def test_start_from_a_wrong_savepoint_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with start_server(tmp_path / "state", keep_failed_streams=3600.0) as server:
        updated = UpdatedStream.begin(create_pipelines(server), tmp_path, seconds=8)
        updated.wait_for_results()
        job = updated.jobs[0]
        url = str(tmp_path / "save%20point")
        with JobClient(server.address) as client:
            client.make_savepoint(job.job_id, url)
            with pytest.raises(JobApiError, match="isn't a supported data store"):
                client.make_savepoint(job.job_id, "ftp://host/savepoint")
            with pytest.raises(JobApiError, match="expected the absolute path of a folder"):
                client.make_savepoint(job.job_id, "relative")
        for flags, text in (
            (("--beam_spark_from_savepoint=relative",), "expected the absolute path of a folder"),
            ((f"--beam_spark_from_savepoint={tmp_path}/absent",), "has no complete savepoint"),
            ((f"--beam_spark_from_savepoint={url}", "--update"), "can't be used together"),
            (
                (f"--beam_spark_from_savepoint={url}", "--beam_spark_update_quiet=1s"),
                "has no effect with --beam_spark_from_savepoint",
            ),
        ):
            with pytest.raises(Exception, match=text):
                updated.submit(Edit(), *flags).wait()
                raise AssertionError(updated.jobs[-1].messages()[-1].text)
        with pytest.raises(Exception, match="Sums"):
            updated.submit(Edit(sums="Totals"), f"--beam_spark_from_savepoint={url}").wait()
            raise AssertionError(updated.jobs[-1].messages()[-1].text)
        (Path(url) / "ledger").write_bytes(b"damaged")
        with pytest.raises(Exception, match="is damaged"):
            updated.submit(Edit(), f"--beam_spark_from_savepoint={url}").wait()
            raise AssertionError(updated.jobs[-1].messages()[-1].text)
        updated.release_end()
        assert job.wait() is JobState.DONE
        refusal = pytest.raises(JobApiError, match="needs a running, failed or cancelled stream")
        with JobClient(server.address) as client, refusal:
            client.make_savepoint(job.job_id, f"{url}2")
