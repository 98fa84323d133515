"""Writer of an archive with the savepoint and the state folder of the stream in `kept_stream`.

Usage: python tests/updates/write_kept_stream.py ARCHIVE

Run the command in a checkout in a temporary folder, because tracebacks and code contain paths.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import apache_beam as beam
import kept_stream
import offsets
from apache_beam.testing.util import assert_that
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from beam_runner_server.flags import ServerSettings
from beam_runner_server.job_server import RunnerServer
from beam_runner_server.plain import PlainProcesses
from jobs import Job, Pipelines, pickle_by_value
from waiting import wait_until

VERSIONS = "versions.json"


def describe_versions() -> dict[str, str]:
    """Returns the versions that can run the user code in a state folder."""
    return {"python": "{}.{}".format(*sys.version_info), "beam": beam.__version__}


def submit(address: str, *flags: str) -> Job:
    """Submits the stream with embedded user code."""
    for module in (kept_stream.__name__, offsets.__name__):
        pickle_by_value(module)
    pipelines = Pipelines(address, "embedded", [])
    pipeline = pipelines.new("--streaming", "--job_name=kept", *flags)
    assert_that(kept_stream.build(pipeline), kept_stream.check_results)
    return pipelines.job(pipeline)


def waits_at_gate(job: Job) -> bool:
    """Returns whether the stream has failed at its gate for seconds, so that all other data is processed."""
    with JobClient(job.address) as client:
        return any(one.attempts >= 3 for one in client.get_execution(job.job_id).failed)


def main(archive: Path) -> None:
    """Writes an archive of a stream that waits at its gate."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "kept")
        folder.mkdir()
        os.environ[kept_stream.GATE] = f"{temporary}/gate"
        settings = ServerSettings(
            job_port=0, state_dir=folder / "state", platform=PlainProcesses(2)
        )
        server = RunnerServer(settings)
        server.start()
        try:
            job = submit(server.address)
            job.wait_for(JobState.RUNNING)
            wait_until(lambda: waits_at_gate(job), 60, "the stream waits at its gate")
            with JobClient(server.address) as client:
                client.make_savepoint(job.job_id, str(folder / "savepoint"))
        finally:
            server.stop()
        (folder / VERSIONS).write_text(json.dumps(describe_versions()) + "\n")
        with tarfile.open(archive, "w:xz") as file:
            file.add(folder, "kept", filter=_remove_owner)


def _remove_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Returns an entry without the user's name; None for the folder of a worker process."""
    if "/process-" in entry.name:
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main(Path(sys.argv[1]))
