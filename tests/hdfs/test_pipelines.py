"""Jobs with data and state in a real HDFS, while the namenode and the server are killed, lose and
duplicate no element.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import victims
from beam_runner_storage.stores.spec import StoreSpec
from crash_points import check, submit
from hdfs_servers import NAMENODE, HdfsServers
from job_server import without_store_mark
from jobs import Job, Pipelines, pickle_by_value
from lives import Lives, lives
from victims import Victim, bounded, unbounded
from waiting import wait_until

_COUNT = 2500
_AWAY_SECONDS = 20


@pytest.fixture(scope="module")
def running(hdfs: HdfsServers) -> Iterator[Lives]:
    """Yields a server whose processes share only the data in HDFS; at the end, no file of its jobs may stay."""
    pickle_by_value(victims.__name__)
    flags = (f"--data-dir={hdfs.url}/data",)
    environment = hdfs.environment
    with (
        # Not pytest's folder: its path may be too long for the sockets that are made in it.
        tempfile.TemporaryDirectory(prefix="t") as folder,
        lives(Path(folder), f"{hdfs.url}/state", *flags, environment=environment) as made,
    ):
        yield made
        data = StoreSpec(f"{hdfs.url}/data").open_store()
        wait_until(lambda: not without_store_mark(data.list_names()), 60, "data of jobs goes")
        made.server.stop()


def _has_begun(job: Job) -> bool:
    return job.counter("first") > 0 or job.state().is_terminal


@pytest.mark.timeout(900, func_only=True)
@pytest.mark.parametrize("victim", [bounded, unbounded], ids=lambda victim: victim.__name__)
def test_elements_arrive_exactly_once_with_data_on_hdfs(
    hdfs: HdfsServers, running: Lives, victim: Victim
) -> None:
    job = submit(Pipelines(running.address, "embedded", []), victim, _COUNT, Path("/nowhere"))
    wait_until(lambda: _has_begun(job), 120, "the job begins")
    hdfs.kill(NAMENODE)
    time.sleep(_AWAY_SECONDS)
    hdfs.start(NAMENODE)
    hdfs.wait()
    assert not job.state().is_terminal, "the job was over before its server was killed"
    assert running.kill("server")
    running.wait_until_gone()
    running.go_on()
    wait_until(lambda: job.state().is_terminal, 400, "the job ends")
    check(job, _COUNT)
