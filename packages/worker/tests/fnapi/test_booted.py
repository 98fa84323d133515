"""Tests of processes of this interpreter with staged packages: packages are installed first, or the
job gets the reason.
"""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_runner_api_pb2
from beam_runner_model.stages import Artifact, Environment
from tiny_host import Artifacts, Logs, TinyHost, create_job, new_pipeline, pickle_by_value
from wheels import make_wheel

from beam_runner_worker.errors import BundleError
from beam_runner_worker.fnapi.server import FnApiServer

pytestmark = pytest.mark.timeout(180)
pickle_by_value(__name__)


def environment(*files: Path) -> tuple[Environment, Artifacts]:
    """Returns an environment of this interpreter with staged files."""
    staged = [
        Artifact(
            role_urn="beam:artifact:role:staging_to:v1",
            role_payload=beam_runner_api_pb2.ArtifactStagingToRolePayload(
                staged_name=file.name
            ).SerializeToString(),
            type_urn="beam:artifact:type:file:v1",
            type_payload=file.name.encode(),
            staged_name=file.name,
            sha256=file.name,
        )
        for file in files
    ]
    contents = {file.name: file.read_bytes() for file in files}
    return Environment("beam:env:embedded_python:v1", b"", tuple(staged)), Artifacts(contents)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEAM_RUNNER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")


def test_user_code_imports_its_staged_packages(tmp_path: Path) -> None:
    def ask(out: str) -> None:
        import staged_module

        Path(out).write_text(staged_module.WHO)

    wheel = make_wheel(tmp_path, "staged_module", "WHO = 'it'")
    listing = tmp_path / "extra_packages.txt"
    listing.write_text(f"{wheel.name}\n")
    p = new_pipeline()
    p | beam.Create([str(tmp_path / "out")]) | beam.Map(ask)
    host = TinyHost(p)
    there, artifacts = environment(wheel, listing)
    logs = Logs()
    server = FnApiServer(create_job(there, environments=host.environment_ids), artifacts, logs)
    try:
        host.run(server.get_harness)
    finally:
        server.close()
    assert (tmp_path / "out").read_text() == "it"
    assert "creating a virtual environment" in logs.messages


def test_staged_packages_that_cannot_be_installed_fail_bundle(tmp_path: Path) -> None:
    """The failure is permanent: no retry on another machine is needed."""
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("there-is-no-such-package\n")
    p = new_pipeline()
    p | beam.Create([1]) | beam.Map(print)
    host = TinyHost(p)
    there, artifacts = environment(requirements)
    server = FnApiServer(create_job(there, environments=host.environment_ids), artifacts, Logs())
    wanted = r"Can't prepare the environment: ERROR: No matching distribution found for there-is-no-such-package"
    try:
        with pytest.raises(BundleError, match=wanted) as failed:
            host.run(server.get_harness)
    finally:
        server.close()
    assert "exited with code 78" in failed.value.trace
    assert "Could not find a version that satisfies" in failed.value.trace
    assert not list((tmp_path / "cache").rglob("ready")), "a failed environment is not reused"
