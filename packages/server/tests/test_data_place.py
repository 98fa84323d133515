"""Where the data of jobs lies: nobody's but this server's, and asked for where machines need it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from beam_runner_storage.stores.ports import StoreError
from beam_runner_storage.stores.spec import NO_STORE, StoreSpec, parse_data_dir
from waiting import wait_until

from beam_runner_server.data_place import DataPlace


def test_on_one_machine_it_is_in_the_state_folder(tmp_path: Path) -> None:
    assert DataPlace.of(None, tmp_path).folder == tmp_path / "jobs"


def test_other_machines_have_no_place_that_nobody_has_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared = DataPlace.of(tmp_path / "shared", tmp_path)
    assert shared.for_machines("spark://host:7077") == shared
    assert not caplog.messages
    place = DataPlace.of(None, tmp_path).for_machines("spark://host:7077")
    assert (place.folder, place.store) == (tmp_path / "jobs", NO_STORE)
    (told,) = caplog.messages
    assert told.startswith("spark://host:7077 runs bundles on other machines, and no --data-dir")
    place.check()
    place.remove_but(())


def test_that_machines_share_nothing_can_be_said(tmp_path: Path) -> None:
    assert DataPlace.of(parse_data_dir("none"), tmp_path).store == NO_STORE


@pytest.mark.parametrize("wanted", ["store", "folder"])
def test_two_servers_never_have_one_place_and_one_keeps_its_own(
    tmp_path: Path, wanted: str
) -> None:
    states = [tmp_path / "one", tmp_path / "other"]
    for state in states:
        state.mkdir()
    data = StoreSpec("s3://bucket/x") if wanted == "store" else tmp_path / "data"
    first, again, other = (DataPlace.of(data, state) for state in (*states[:1], *states))
    assert first == again
    assert (first.folder, first.store) != (other.folder, other.store)
    if first.store is not None and other.store is not None:
        assert first.store.url != other.store.url


def test_a_folder_that_machines_share_has_a_part_for_its_user_alone(tmp_path: Path) -> None:
    place = DataPlace.of(tmp_path / "shared", tmp_path)
    place.check()
    assert stat.S_IMODE(place.folder.stat().st_mode) == 0o700
    place.folder.chmod(0o770)
    place.check()
    assert stat.S_IMODE(place.folder.stat().st_mode) == 0o770


def test_a_place_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file/.*can't be made"):
        DataPlace.of(tmp_path / "file", tmp_path).check()


def test_what_ended_jobs_have_left_goes_and_nothing_of_others(tmp_path: Path) -> None:
    spec = StoreSpec(f"file://{tmp_path / 'store'}")
    place = DataPlace.of(spec, tmp_path)
    place.check()
    assert place.store is not None
    source = tmp_path / "source"
    source.touch()
    for job in ("job-1", "job-2"):
        place.store.within(job).open().put("data", source)
        (place.folder / job).mkdir(parents=True)
    spec.within("server-of-somebody-else").open().put("job-1/data", source)
    place.remove_but({"job-2"})
    wait_until(lambda: list(place.store.open().names()) == ["job-2/data"], 30)
    assert list(spec.within("server-of-somebody-else").open().names()) == ["job-1/data"]
    assert [folder.name for folder in place.folder.iterdir()] == ["job-2"]
