"""Tests that a starting server reports each cluster problem in one sentence, with the host if only one host has it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import pytest
from cluster_site import PREFIX, Site
from crash_points import check, submit
from job_server import JobServerProcess, ServerEnded, job_server
from jobs import Pipelines
from lives import Lives
from s3_machine import BUCKET
from victims import bounded

pytestmark = pytest.mark.usefixtures("of_s3")
_DEBIAN_PYTHON = "/usr/bin/python3"
_COUNT = 600


def refusal(site: Site, folder: Path, *flags: str, **environment: str) -> str:
    """Returns the error line of a server that doesn't start."""
    return _refusal(folder, (*site.flags("refused"), *flags), {**site.environment, **environment})


def _refusal(folder: Path, flags: Sequence[str], environment: Mapping[str, str]) -> str:
    began = time.time()
    with pytest.raises(ServerEnded) as told:
        JobServerProcess(folder, *flags, environment=environment).kill()
    server = told.value.server
    server.process.wait(60)
    ended = time.time()
    (said,) = (line for line in server.log if line.startswith("beam-spark-jobserver: "))
    up = [line.split()[0] for line in server.log if " is up at " in line]
    since = datetime.fromisoformat(up[0]).timestamp() if up else began
    told_by = "Spark was up" if up else "it was started"
    print(
        f"\nREFUSED, and ended, {ended - since:.1f} s after {told_by}: {said}", end="", flush=True
    )
    assert "Traceback" not in "".join(server.log)
    return said


def test_server_start_with_a_missing_bucket_is_refused(site: Site, tmp_path: Path) -> None:
    said = refusal(site, tmp_path, "--data-dir=s3://missing/jobs")
    assert "s3://missing/jobs/server-" in said
    assert "NoSuchBucket" in said
    assert "create the bucket" in said


def test_server_start_with_unknown_credentials_is_refused(site: Site, tmp_path: Path) -> None:
    said = refusal(site, tmp_path, AWS_SECRET_ACCESS_KEY="wrong")
    assert "SignatureDoesNotMatch" in said
    assert "wrong" not in said


def test_server_start_with_missing_credentials_is_refused(site: Site, tmp_path: Path) -> None:
    # Nor may a file of the user's have any.
    bare = {"HOME": str(tmp_path)} | {
        name: value
        for name, value in site.environment.items()
        if name not in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    }
    said = _refusal(tmp_path, site.flags("refused"), bare)
    assert f"s3://{BUCKET}/refused" in said
    assert "no credentials are in the environment" in said


def test_server_start_with_a_read_only_store_is_refused(site: Site, tmp_path: Path) -> None:
    with site.read_only_store() as url:
        said = refusal(site, tmp_path, AWS_ENDPOINT_URL=url)
    assert "AccessDenied" in said


@pytest.mark.timeout(600, func_only=True)
def test_server_start_with_wrong_credentials_of_executors_is_reported(
    site: Site, tmp_path: Path
) -> None:
    said = refusal(site, tmp_path, "--spark-conf=spark.executorEnv.AWS_SECRET_ACCESS_KEY=wrong")
    assert "bundles can't run on the executor's host worker-" in said
    assert "SignatureDoesNotMatch" in said


@pytest.mark.timeout(600, func_only=True)
@pytest.mark.skipif(shutil.which(_DEBIAN_PYTHON) is None, reason="there is no other Python here")
def test_server_start_with_executors_without_the_runner_is_reported(
    site: Site, tmp_path: Path
) -> None:
    said = refusal(site, tmp_path, f"--spark-conf=spark.pyspark.python={_DEBIAN_PYTHON}")
    assert "the Python of executors has no beam_spark_executor" in said


@pytest.mark.timeout(600, func_only=True)
def test_server_start_with_an_address_unreachable_from_executors_is_reported(
    site: Site, tmp_path: Path
) -> None:
    nowhere = f"{site.network.address.rpartition('.')[0]}.250:9"
    said = refusal(site, tmp_path, f"--channel-advertise={nowhere}")
    assert "bundles can't run on the executor's host worker-" in said
    assert f"{nowhere} can't connect to it" in said
    assert "--channel-advertise" in said


@pytest.mark.timeout(600, func_only=True)
def test_server_start_with_full_disks_of_executors_is_reported(site: Site, tmp_path: Path) -> None:
    with ExitStack() as stack:
        for machine in site.spark.workers:
            stack.enter_context(machine.full(site.spark.scratch))
        said = refusal(site, tmp_path)
    assert "bundles can't run on the executor's host worker-" in said
    assert f"{site.spark.scratch}" in said
    assert "No space left on device" in said


@pytest.mark.timeout(600, func_only=True)
def test_servers_with_a_shared_prefix_keep_their_own_data(
    running: Lives, embedded: Pipelines, site: Site, tmp_path: Path
) -> None:
    first = submit(embedded, bounded, _COUNT, Path("/nowhere"))
    place = f"--data-dir=s3://{BUCKET}/{PREFIX}"
    environment = site.store.environment
    with job_server(tmp_path, "--without-spark", place, environment=environment) as other:
        second = Pipelines(other.address, "embedded", [])
        check(submit(second, bounded, _COUNT, Path("/nowhere")), _COUNT)
    check(first, _COUNT)
