"""Tests that the image builds without a daemon, and that its entry point starts servers and executors.

The base image is a Debian of `debootstrap` with this machine's certificates, because no image registry
is needed then. `buildah` runs the steps in a chroot, so neither Docker nor a container runtime is
tested.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from server_commands import DEPLOY, ROOT

_TOOLS = ("buildah", "debootstrap")
_CERTIFICATES = Path("/usr/local/share/ca-certificates")
_PIP = Path("/etc/pip.conf")
_EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_ID": "7",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "app-1",
    "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
    "SPARK_EXECUTOR_POD_NAME": "pod-7",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_JAVA_OPT_0": "-Dfirst=with a space",
    "SPARK_JAVA_OPT_1": "-Dsecond=$HOME",
}
"""Variables that Spark's Kubernetes client sets in executor pods."""


@attrs.frozen
class Builder:
    """Buildah with its storage in a folder."""

    folder: Path

    def run(self, *arguments: str, seconds: float = 60.0) -> str:
        """Returns the output of a command of buildah."""
        storage = (f"--root={self.folder}/storage", f"--runroot={self.folder}/run")
        done = subprocess.run(
            ("buildah", *storage, *arguments),
            cwd=ROOT,
            env={**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-5000:]
        return done.stdout.strip()

    def make_base(self) -> str:
        """Returns the name of an image with a minimal Debian."""
        root = self.folder / "debian"
        bootstrap = ("debootstrap", "--variant=minbase", "bookworm", str(root))
        subprocess.run(bootstrap, check=True, stdout=subprocess.DEVNULL, timeout=900)
        for file in _CERTIFICATES.glob("*.crt"):
            target = root / _CERTIFICATES.relative_to("/")
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        if _PIP.exists():
            shutil.copy(_PIP, root / "etc")
        container = self.run("from", "scratch").splitlines()[-1]
        self.run("add", container, str(root), "/", seconds=300)
        self.run("commit", "--rm", container, "localhost/debian:base", seconds=300)
        return "localhost/debian:base"


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Builder, str]]:
    """Yields a container of the built image."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"NOT RUN: the image needs root, and {' and '.join(missing or _TOOLS)}")
    builder = Builder(tmp_path_factory.mktemp("image"))
    base = builder.make_base()
    file = str(DEPLOY / "docker" / "Dockerfile")
    build = ("build", "--format=docker", f"--build-arg=BASE={base}", f"--file={file}")
    # The cache of pip saves the download of Spark.
    cache = Path.home() / ".cache" / "pip"
    volumes = [f"--volume={cache}:/root/.cache/pip"] if cache.is_dir() else []
    print(builder.run(*build, *volumes, "--tag=beam-spark", ".", seconds=3_000)[-2_000:])
    yield builder, builder.run("from", "localhost/beam-spark").splitlines()[-1]
    shutil.rmtree(builder.folder)


@pytest.mark.slow
@pytest.mark.timeout(4_500)
def test_server_in_the_image_runs_a_job_as_a_user_without_rights(
    container: tuple[Builder, str],
) -> None:
    builder, name = container
    script = """
set -e
id -u
/opt/beam/entrypoint.sh --version
/opt/beam/entrypoint.sh --job-port=0 --port-file=port --state-dir=state --web-port=0 &
server=$!
until [ -e port ]; do sleep 0.2; done
printf 'to be or not to be' > words
python3 -m apache_beam.examples.wordcount --input=words --output=counts \
    --runner=beam_spark_executor.BeamSparkRunner --job_endpoint=$(cat port)
cat counts*
kill $server
wait $server
"""
    output = builder.run("run", name, "--", "/bin/sh", "-c", script, seconds=600)
    assert output.splitlines()[0] == "10001"
    assert {"to: 2", "be: 2", "or: 1", "not: 1"} <= set(output.splitlines())


def test_entry_point_passes_settings_of_spark_to_the_executor(tmp_path: Path) -> None:
    (tmp_path / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "java").chmod(0o755)
    (tmp_path / "python3").write_text("#!/bin/sh\necho /spark\n")
    (tmp_path / "python3").chmod(0o755)
    text = (DEPLOY / "docker" / "entrypoint.sh").read_text(encoding="utf-8")
    entry = tmp_path / "entrypoint.sh"
    entry.write_text(text.replace("/opt/beam/bin", str(tmp_path)))
    done = subprocess.run(
        ("sh", str(entry), "executor"),
        env={**_EXECUTOR, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SPARK_CONF_DIR": "/conf"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    given = done.stdout.splitlines()
    assert given[:5] == ["-Dfirst=with a space", "-Dsecond=$HOME", "-Xms512m", "-Xmx512m", "-cp"]
    assert given[5] == "/conf:/spark/jars/*"
    assert dict(zip(given[7::2], given[8::2], strict=True)) == {
        "--driver-url": _EXECUTOR["SPARK_DRIVER_URL"],
        "--executor-id": "7",
        "--cores": "2",
        "--app-id": "app-1",
        "--hostname": "127.0.0.1",
        "--resourceProfileId": "0",
        "--podName": "pod-7",
    }


@pytest.mark.slow
@pytest.mark.timeout(4_500)
def test_executor_of_the_image_accepts_its_arguments_and_looks_for_the_driver(
    container: tuple[Builder, str],
) -> None:
    builder, name = container
    variables = {**_EXECUTOR, "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:9"}
    named = [f"--env={key}={value}" for key, value in variables.items() if "JAVA" not in key]
    # The name of the container has no address in a chroot.
    named.append("--env=SPARK_LOCAL_IP=127.0.0.1")
    # Spark's Kubernetes client passes such options, which Spark needs on Java 17.
    opens = "--env=SPARK_JAVA_OPT_0=--add-opens=java.base/java.lang=ALL-UNNAMED"
    script = "/opt/beam/entrypoint.sh executor || true"
    run = ("run", *named, opens, name, "--", "/bin/sh", "-c", script)
    output = builder.run(*run, seconds=300)
    assert "127.0.0.1:9" in output and "Unrecognized options" not in output
