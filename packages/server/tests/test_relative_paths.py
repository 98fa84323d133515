from __future__ import annotations

import os
from pathlib import Path

import attrs
import pytest
from beam_runner_model.jobs import JobSpec
from beam_runner_planner.file_steps import FileStep
from beam_runner_runtime.client_folder import ClientFolder
from beam_runner_urns import options as option_urns

from beam_runner_server.relative_paths import describe_relative_paths, find_reachable_folder

NONE: frozenset[str] = frozenset()
READ = FileStep("R/Read", "in.txt", False, NONE, NONE)
WRITE = FileStep("W/Write", "out-*", False, NONE, NONE, is_write=True)


def job_from(folder: ClientFolder | None) -> JobSpec:
    options = {} if folder is None else {option_urns.CLIENT_FOLDER: folder.encode()}
    return JobSpec("job-1", "job", b"", options, "{}", {}, "localhost:1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClientFolder:
    """Returns the working directory of a client, which isn't this process's."""
    with monkeypatch.context() as client:
        client.chdir(tmp_path)
        found = ClientFolder.from_current_process()
    assert found is not None
    return found


def test_client_folder_is_reachable_only_on_machine_of_workers(folder: ClientFolder) -> None:
    assert find_reachable_folder(job_from(folder), on_cluster=False) == folder.path
    assert find_reachable_folder(job_from(folder), on_cluster=True) == ""
    assert find_reachable_folder(job_from(None), on_cluster=False) == ""
    elsewhere = attrs.evolve(folder, machine="another")
    assert find_reachable_folder(job_from(elsewhere), on_cluster=False) == ""


def test_warning_about_relative_paths_names_folders_steps_and_paths(folder: ClientFolder) -> None:
    text = describe_relative_paths(job_from(folder), [READ, WRITE], on_cluster=False)

    assert folder.path in text
    assert os.getcwd() in text
    assert "'R/Read' reads 'in.txt', 'W/Write' writes 'out-*'" in text


def test_warning_about_relative_paths_on_cluster_names_no_folder_of_server(
    folder: ClientFolder,
) -> None:
    text = describe_relative_paths(job_from(folder), [READ], on_cluster=True)

    assert folder.path in text
    assert os.getcwd() not in text.replace(folder.path, "")


@pytest.mark.parametrize(
    "step",
    [
        attrs.evolve(READ, pattern="/in.txt"),
        attrs.evolve(READ, pattern="gs://bucket/in.txt"),
        attrs.evolve(READ, pattern=""),
        attrs.evolve(READ, elsewhere=True),
    ],
)
def test_steps_with_absolute_paths_get_no_warning_about_relative_paths(step: FileStep) -> None:
    assert describe_relative_paths(job_from(None), [step], on_cluster=False) == ""
