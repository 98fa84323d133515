"""Tests of the artifact store."""

from __future__ import annotations

import hashlib
import threading

import pytest
from beam_runner_model.errors import RunnerError, Unavailable

from beam_runner_jobservices.errors import NotFound
from beam_runner_jobservices.store import ArtifactStore

from .fakes import files_in
from .logs import MemoryFiles


@pytest.fixture
def root(tmp_path):
    return tmp_path / "deep" / "store"


@pytest.fixture
def store(root):
    opened = ArtifactStore(root)
    yield opened
    opened.close()


def test_artifact_store_returns_content_by_its_hash(root, store):
    stored = store.add_file("job", b"content")
    assert stored.sha256 == hashlib.sha256(b"content").hexdigest()
    assert stored.size == 7
    assert stored.path.read_bytes() == b"content"
    with store.open_file(stored.sha256) as file:
        assert file.read() == b"content"
    assert files_in(root) == [stored.path]
    assert not stored.path.stat().st_mode & 0o222


def test_artifact_file_is_visible_only_when_complete(root, store):
    with store.open_incoming_file("job") as file:
        file.write(b"con")
        with pytest.raises(NotFound):
            store.open_file(hashlib.sha256(b"con").hexdigest())
        file.write(b"tent")
        stored = file.commit()
    assert stored.path.read_bytes() == b"content"


def test_aborted_artifact_file_is_removed(root, store):

    def give_up():
        with store.open_incoming_file("job") as file:
            file.write(b"content")
            raise KeyError

    with pytest.raises(KeyError):
        give_up()
    assert files_in(root) == []


def test_equal_artifact_content_is_stored_once_until_last_release(root, store):
    first, second = store.add_file("a", b"same"), store.add_file("b", b"same")
    store.add_file("a", b"other")
    assert first == second
    assert len(files_in(root)) == 2
    store.release_files("a")
    assert files_in(root) == [first.path]
    store.release_files("a")
    store.release_files("b")
    assert files_in(root) == []
    assert store.add_file("c", b"same").path.read_bytes() == b"same"


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "/etc/passwd", "A" * 64, "a" * 63, "."])
def test_artifact_store_refuses_invalid_hashes(store, name):
    with pytest.raises(NotFound):
        store.open_file(name)


def test_artifact_folder_has_one_store_and_is_emptied_on_open(root):
    first = ArtifactStore(root)
    first.add_file("job", b"content")
    with pytest.raises(RunnerError, match="in use by another server"):
        ArtifactStore(root)
    assert len(files_in(root)) == 1
    (root / "incoming" / "left").write_bytes(b"by a crash")
    first.close()
    first.close()
    assert files_in(root) == []
    (root / "sha256").mkdir()
    (root / "sha256" / "left").write_bytes(b"by a crash")
    second = ArtifactStore(root)
    assert files_in(root) == []
    second.close()


def test_artifact_release_after_close_has_no_effect(root, store):
    kept = store.add_file("a", b"content").path
    store.close()
    assert not kept.exists()
    store.release_files("a")


def test_concurrent_add_and_release_of_same_artifact_never_lose_its_file(root, store):
    failures = []

    def work(owner):
        for _ in range(100):
            stored = store.add_file(owner, b"same")
            if stored.path.read_bytes() != b"same":
                failures.append(owner)
            store.release_files(owner)

    workers = [threading.Thread(target=work, args=(str(number),)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures
    assert files_in(root) == []


class TestFarFiles:
    """Tests of copies that outlive the machine."""

    @pytest.fixture
    def far(self):
        return MemoryFiles()

    @pytest.fixture
    def store(self, root, far):
        opened = ArtifactStore(root, {}, far)
        yield opened
        opened.close()

    def test_artifacts_in_use_are_available_on_next_machine(self, tmp_path, store, far):
        held, other = store.add_file("job", b"content"), store.add_file("other", b"more")
        again = ArtifactStore(tmp_path / "2", {"job": [held.sha256]}, far)
        with again.open_file(held.sha256) as file:
            assert file.read() == b"content"
        assert again.get_path(held.sha256) != held.path
        assert not again.get_path(other.sha256).exists()
        assert list(far.files.values()) == [b"content"]
        again.release_files("job")
        assert far.files == {}
        again.close()

    def test_artifact_content_is_copied_once_and_stays_while_in_use(self, store, far):
        store.add_file("first", b"content")
        stored = store.add_file("second", b"content")
        assert len(far.files) == 1
        store.release_files("first")
        assert list(far.files.values()) == [b"content"]
        assert stored.path.exists()
        store.release_files("second")
        assert far.files == {}

    def test_concurrent_staging_of_same_artifact_leaves_one_copy(self, store, far):
        with store.open_incoming_file("first") as one, store.open_incoming_file("second") as two:
            one.write(b"content")
            two.write(b"content")
            copy = far.put

            def put_after_the_other(sha256, file):
                far.put = copy
                one.commit()
                return copy(sha256, file)

            far.put = put_after_the_other
            two.commit()
        assert len(far.files) == 1
        store.release_files("first")
        assert len(far.files) == 1
        store.release_files("second")
        assert far.files == {}

    def test_artifact_that_cannot_be_copied_is_not_added_to_store(self, root, store, far):
        far.refuses = True
        with pytest.raises(Unavailable):
            store.add_file("job", b"content")
        assert files_in(root) == []
        far.refuses = False
        assert store.add_file("job", b"content").path.exists()
