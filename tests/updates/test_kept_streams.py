"""Tests of streams in savepoints and state folders of earlier versions: this version completes them exactly.

The archives in `older_versions` never change. `write_kept_stream.py` writes the archive of a new version.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import kept_stream
import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from update_servers import start_server
from write_kept_stream import VERSIONS, describe_versions, submit

pytestmark = pytest.mark.timeout(300)
OLDER = sorted((Path(__file__).parent / "older_versions").glob("*.tar.xz"))


@pytest.fixture(autouse=True)
def _open_gate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    monkeypatch.setenv(kept_stream.GATE, str(gate))


@pytest.fixture(params=OLDER, ids=lambda archive: archive.name)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Returns a folder with the savepoint and the state folder of an earlier version."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "kept"


def test_stream_starts_from_savepoint_of_older_version(kept: Path, tmp_path: Path) -> None:
    with start_server(tmp_path / "state") as server:
        job = submit(server.address, f"--beam_spark_from_savepoint={kept / 'savepoint'}")
        assert job.wait() is JobState.DONE, [message.text for message in job.messages()][-3:]


@pytest.mark.slow
def test_server_continues_stream_in_state_folder_of_older_version(kept: Path) -> None:
    """The folder has pickled user code, which only the same versions of Python and Beam can run."""
    if json.loads((kept / VERSIONS).read_text()) != describe_versions():
        pytest.skip("the folder has user code of another version of Python or Beam")
    with start_server(kept / "state") as server, JobClient(server.address) as client:
        (job,) = client.list_jobs()
        assert client.wait_until_finish(job.job_id, 60) is JobState.DONE
