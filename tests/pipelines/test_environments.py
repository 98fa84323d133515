"""Tests of pipelines with staged packages, and of pipelines with several environments."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.environments import DockerEnvironment, ProcessEnvironment
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from jobs import Pipelines
from wheels import make_wheel

pytestmark = pytest.mark.timeout(180)


def packages_of(folder: Path) -> list[str]:
    """Returns the flags of a pipeline with a package file and a package that is required by name."""
    extra = make_wheel(folder, "an_extra_package", "WHO = 'extra'")
    required = make_wheel(folder, "a_required_package", "WHO = 'required'", version="2.5")
    requirements = folder / "requirements.txt"
    requirements.write_text("a_required_package>=2\n")
    return [
        f"--extra_package={extra}",
        f"--requirements_file={requirements}",
        "--requirements_cache=skip",
        f"--files_to_stage={required}",
    ]


def ask(n: int) -> tuple[int, str, str, bool]:
    import a_required_package
    import an_extra_package

    return n, an_extra_package.WHO, a_required_package.WHO, "beam-runner" in sys.executable


def test_staged_packages_are_installed(embedded: Pipelines, tmp_path: Path) -> None:
    with embedded.new(*packages_of(tmp_path)) as p:
        answers = p | beam.Create([1, 2]) | beam.Reshuffle() | beam.Map(ask)
        assert_that(answers, equal_to([(n, "extra", "required", True) for n in (1, 2)]))


class Note(beam.DoFn):
    """Puts out the numbers with the process that has seen them."""

    def process(self, pairs: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        yield (*pairs, os.getpid())


def test_pipeline_with_several_environments_gives_exact_results(
    embedded: Pipelines, boot: Path, tmp_path: Path
) -> None:
    """Data passes between processes of two environments, within one stage or by grouping."""
    out = tmp_path / "out"

    def write(pairs: tuple[int, ...]) -> None:
        with out.open("a") as file:
            file.write(" ".join(map(str, pairs)) + "\n")

    p = embedded.new()
    (
        p
        | beam.Create([(1,), (2,)])
        | "First" >> beam.ParDo(Note())
        | "Other" >> beam.ParDo(Note())
        | beam.GroupBy(lambda pairs: pairs[0])
        | beam.FlatMap(lambda group: group[1])
        | "Third" >> beam.ParDo(Note())
        | beam.Map(write)
    )
    proto = p.to_runner_api(
        default_environment=DockerEnvironment.from_container_image(
            DockerEnvironment.default_docker_image()
        )
    )
    components = proto.components
    for name, variables in (("other", {}), ("third", {"X": "1"})):
        environment = ProcessEnvironment(str(boot), env=variables).to_runner_api(None)
        components.environments[name].CopyFrom(environment)
    for transform in components.transforms.values():
        if transform.unique_name in ("Other", "Third") and transform.environment_id:
            transform.environment_id = transform.unique_name.lower()
    for environment in components.environments.values():
        del environment.dependencies[:]
    with JobClient(embedded.address) as client:
        job_id = client.submit_job(proto.SerializeToString())
        assert client.wait_until_finish(job_id, 120) is JobState.DONE
    seen = [[int(n) for n in line.split()] for line in out.read_text().splitlines()]
    assert sorted(n for n, *_ in seen) == [1, 2]
    for _, first, other, third in seen:
        assert len({first, other, third}) == 3


def read_variables(_: int) -> tuple[str | None, str | None]:
    return os.environ.get("MINE"), os.environ.get("NOT_SENT")


@pytest.mark.parametrize("environment", ["embedded", "PROCESS"])
def test_user_code_has_the_environment_variables_of_the_job_option(
    embedded: Pipelines, boot: Path, environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOT_SENT", "x")
    flags = [
        "--environment_type=PROCESS",
        f'--environment_config={{"command": "{boot}"}}',
    ]
    used = flags if environment == "PROCESS" else []
    with embedded.new("--beam_spark_env=MINE=a=b", *used) as p:
        found = p | beam.Create([1]) | beam.Map(read_variables)
        assert_that(found, equal_to([("a=b", None)]))
