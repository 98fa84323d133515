"""Tests of every data store: a folder, a server with the S3 protocol, and HDFS."""

from __future__ import annotations

import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from moto_server import S3

from beam_runner_storage.stores import objects
from beam_runner_storage.stores.ports import FileStore, MissingFileError, StoreError
from beam_runner_storage.stores.probe import probe_store
from beam_runner_storage.stores.spec import StoreSpec, parse_data_dir, parse_user_store


@pytest.fixture
def store(spec: StoreSpec) -> FileStore:
    return spec.open_store()


def put(store: FileStore, folder: Path, name: str, contents: bytes) -> None:
    source = folder / "source"
    source.write_bytes(contents)
    store.put_file(name, source)


@pytest.mark.parametrize("size", [0, 1, 20 << 20], ids=["empty", "a byte", "in parts"])
def test_data_store_returns_stored_files(store: FileStore, tmp_path: Path, size: int) -> None:
    contents = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    put(store, tmp_path, "1-2-1-0.arrow", contents)
    assert store.fetch_file("1-2-1-0.arrow", tmp_path / "target") == size
    assert (tmp_path / "target").read_bytes() == contents
    assert list(tmp_path.glob(".*")) == []


def test_data_store_writes_fetched_ranges_at_their_offsets(
    store: FileStore, tmp_path: Path
) -> None:
    contents = bytes(range(200))
    put(store, tmp_path, "1-2-1-0.arrow", contents)
    target = tmp_path / "target"
    for start, end, there in (
        (-10, None, {*range(190, 200)}),
        (50, 60, {*range(50, 60)}),
        (55, 70, {*range(60, 70)}),
        (-500, None, {*range(200)}),
    ):
        before = target.read_bytes() if target.exists() else bytes(200)
        assert store.fetch_file_part("1-2-1-0.arrow", target, start, end) == 200
        after = target.read_bytes()
        assert after == bytes(contents[n] if n in there else before[n] for n in range(200))
    with pytest.raises(MissingFileError, match="has no 1-2-2"):
        store.fetch_file_part("1-2-2", tmp_path / "other", -10)


def test_fetch_of_missing_file_raises_error_and_leaves_no_file(
    store: FileStore, tmp_path: Path
) -> None:
    with pytest.raises(MissingFileError, match="has no 1-2-1"):
        store.fetch_file("1-2-1", tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_data_store_lists_only_names_with_its_prefix(spec: StoreSpec, tmp_path: Path) -> None:
    for job in ("job-1", "job-2"):
        put(spec.with_prefix(job).open_store(), tmp_path, "data", job.encode())
    assert list(spec.with_prefix("job-1").open_store().list_names()) == ["data"]
    assert sorted(spec.open_store().list_names()) == ["job-1/data", "job-2/data"]


def test_data_store_deletes_file_and_accepts_delete_of_missing_file(
    store: FileStore, tmp_path: Path
) -> None:
    for name in "abcd":
        put(store, tmp_path, name, b"x")
    store.delete_files(["a", "nothing", "b", "d"])
    assert list(store.list_names()) == ["c"]
    store.delete_files([])


def test_concurrent_puts_into_store_do_not_interfere(store: FileStore, tmp_path: Path) -> None:
    def work(number: int) -> None:
        mine = tmp_path / str(number)
        mine.mkdir()
        put(store, mine, f"file-{number}", bytes([number]) * 1000)
        store.fetch_file(f"file-{number}", mine / "target")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(16):
        assert (tmp_path / str(number) / "target").read_bytes() == bytes([number]) * 1000


def test_probe_of_working_store_passes_and_leaves_no_file(spec: StoreSpec) -> None:
    probe_store(spec)
    assert list(spec.open_store().list_names()) == []


def test_missing_store_bucket_is_reported_by_name(
    s3: str, spec: StoreSpec, request: pytest.FixtureRequest
) -> None:
    if not spec.url.startswith("s3:"):
        pytest.skip("a folder is made")
    with pytest.raises(
        StoreError, match="s3://missing/x/probe failed to write .*: NoSuchBucket: "
    ) as told:
        probe_store(StoreSpec("s3://missing/x"))
    assert len(str(told.value).splitlines()) == 1


@pytest.mark.parametrize("patience", [0.5, 2.0])
def test_unreachable_store_is_retried_until_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{closed.getsockname()[1]}"
        for name, value in S3.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", nowhere)
        began = time.monotonic()
        with pytest.raises(
            StoreError, match=f"failed to write file: .*{nowhere}.*after .* retries"
        ):
            put(StoreSpec("s3://bucket/x").open_store(patience), tmp_path, "file", b"x")
    assert patience <= time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("status", "code", "message", "remedy"),
    [
        (403, "AccessDenied", "Access Denied.", "permission to write, read, list and delete"),
        (400, "ExpiredToken", "The provided token has expired.", "get new credentials"),
        (
            403,
            "RequestTimeTooSkewed",
            "The times differ too much.",
            "set the clock of this machine",
        ),
        (403, "Unheard", "Nobody knows why.", ""),
    ],
    ids=["may only be read", "expired token", "wrong clock", "what is not known here"],
)
def test_refused_store_request_is_reported_immediately_with_fix(
    monkeypatch: pytest.MonkeyPatch, status: int, code: str, message: str, remedy: str
) -> None:
    asked = []

    class Refusing(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            asked.append(self.rfile.read(int(self.headers["Content-Length"])))
            answer = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *arguments: object) -> None:
            """Discards the message."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name, value in S3.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(StoreError) as told:
            probe_store(StoreSpec("s3://bucket/x"))
        server.shutdown()
    (once,) = asked
    assert len(once) > 0
    said = rf"s3://bucket/x/probe failed to write \w+: {code}: {re.escape(message[:-1])}"
    assert re.fullmatch(said + (f"; .*{remedy}.*" if remedy else ""), str(told.value))


def test_missing_store_credentials_are_reported() -> None:
    reason = objects._extract_reason(
        OSError(
            "Error performing PUT http://169.254.169.254/latest/api/token in 1 ms - 403 Forbidden"
        )
    )
    assert reason.startswith("no credentials are in the environment")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ftp://host/x", "ftp:// isn't a supported data store"),
        ("s3:///x", "doesn't have the form s3://BUCKET/PREFIX"),
        ("s3://bucket/x?sig=hunter2", "x doesn't have the form"),
        (
            "s3://key:hunter2@bucket/x",
            "remove the password from the URL; expected s3://BUCKET/PREFIX",
        ),
        ("file://here/x", "doesn't have the form file:///FOLDER"),
        (
            "hdfs:///x",
            "doesn't have the form hdfs://NAMENODE:PORT/FOLDER or hdfs://NAMESERVICE/FOLDER",
        ),
        ("viewfs:///x", "doesn't have the form viewfs://CLUSTER/FOLDER"),
    ],
)
def test_invalid_store_address_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        parse_data_dir(text)
    assert "hunter2" not in str(refused.value)


def test_data_dir_option_is_parsed_as_local_folder_or_store(tmp_path: Path) -> None:
    assert parse_data_dir("/shared/data").folder == Path("/shared/data")
    assert parse_data_dir("data").folder == Path.cwd() / "data"
    assert parse_data_dir(f"file://{tmp_path}").folder is None
    assert parse_data_dir("none").folder is None
    assert parse_data_dir("s3://bucket/prefix/") == StoreSpec("s3://bucket/prefix")


def test_store_configured_by_user_is_durable() -> None:
    assert parse_user_store("/shared/data") == StoreSpec("/shared/data", durable=True)
    with pytest.raises(ValueError, match="'none' is no store"):
        parse_user_store("none")


def test_removal_of_unfinished_files_keeps_complete_files(store: FileStore, tmp_path: Path) -> None:
    names = ["folder/run-1.csv", "run-1.csv", "run-1.0123456789abcdef"]
    for name in names:
        put(store, tmp_path, name, b"x")
    for prefix in ("run-", "folder/run-", "absent/run-"):
        store.delete_unfinished_files(prefix)
    assert sorted(store.list_names()) == sorted(names)
