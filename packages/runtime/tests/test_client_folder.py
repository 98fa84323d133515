from __future__ import annotations

import os
from pathlib import Path

import attrs
import pytest
from beam_runner_urns import options as option_urns
from beam_runner_worker.errors import HarnessError

from beam_runner_runtime.client_folder import ClientFolder, enter_client_folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClientFolder:
    """Returns the working directory of this process, whose path has a space."""
    place = tmp_path / "a folder"
    place.mkdir()
    monkeypatch.chdir(place)
    found = ClientFolder.from_current_process()
    assert found is not None
    assert found.path == str(place)
    return found


def test_client_folder_is_read_from_job_options(folder: ClientFolder) -> None:
    assert ClientFolder.from_job_options({option_urns.CLIENT_FOLDER: folder.encode()}) == folder


@pytest.mark.parametrize("value", ["", "one", "one two", None, 7])
def test_malformed_option_has_no_client_folder(value: object) -> None:
    assert ClientFolder.from_job_options({option_urns.CLIENT_FOLDER: value}) is None


def test_client_folder_on_another_machine_is_unreachable(folder: ClientFolder) -> None:
    elsewhere = attrs.evolve(folder, machine="another")

    assert folder.is_reachable(resumed=False)
    assert not elsewhere.is_reachable(resumed=False)
    assert elsewhere.is_reachable(resumed=True)


@pytest.mark.parametrize("path", ["/", "/absent", "", "\0", "relative"])
def test_different_folder_at_path_of_client_folder_is_unreachable(
    path: str, folder: ClientFolder
) -> None:
    other = attrs.evolve(folder, path=path)

    assert not other.is_reachable(resumed=False)
    assert not other.is_reachable(resumed=True)


def test_folder_that_replaces_removed_client_folder_is_unreachable(folder: ClientFolder) -> None:
    removed = Path(folder.path)
    removed.rename(removed.with_name("old"))
    removed.mkdir()

    assert not folder.is_reachable(resumed=True)


def test_worker_process_changes_to_client_folder(
    folder: ClientFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    enter_client_folder(folder.path)

    assert os.getcwd() == folder.path


def test_removed_client_folder_raises_error_with_path(folder: ClientFolder) -> None:
    with pytest.raises(HarnessError, match="/absent, the working directory of the program"):
        enter_client_folder("/absent")
