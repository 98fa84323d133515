from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.guard import AccessGuard
from beam_runner_jobservices.local_access import LocalAccess

from beam_runner_web.extension import WebExtension
from beam_runner_web.server import WebError

from .conftest import Server

TOKEN = "0123456789abcdef-a-secret"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "own").mkdir(mode=0o700)
    server = Server(
        tmp_path / "artifacts",
        guard=AccessGuard(token=TOKEN),
        socket_path=tmp_path / "own" / "jobs",
    )
    yield server
    server.close()


@pytest.fixture
def extension() -> Iterator[WebExtension]:
    found = WebExtension()
    yield found
    found.stop()


def configure(extension: WebExtension, *flags: str) -> None:
    parser = argparse.ArgumentParser()
    extension.add_flags(parser)
    extension.configure(parser.parse_args(["--web-port=0", *flags]))


def start(extension: WebExtension, door: LocalAccess) -> str:
    """Starts the extension, and returns the address of the pages."""
    return extension.start(door).partition("http://")[2].partition("/")[0]


def test_web_pages_of_guarded_server_require_its_token(
    guarded: Server, extension: WebExtension
) -> None:
    guarded.submit(name="secret work")
    configure(extension)
    url = f"http://{start(extension, guarded.server.door)}"
    assert httpx.get(f"{url}/", follow_redirects=False).headers["location"] == "/login"
    assert httpx.get(f"{url}/api/v1/jobs").status_code == 401
    assert httpx.post(f"{url}/jobs/x/cancel").status_code == 401
    shown = {"authorization": f"Bearer {TOKEN}"}
    assert "secret work" in httpx.get(f"{url}/", headers=shown).text


def test_web_pages_can_have_separate_token(
    guarded: Server, extension: WebExtension, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("another")
    configure(extension, f"--web-token-file={tmp_path / 'token'}")
    url = f"http://{start(extension, guarded.server.door)}/api/v1/jobs"
    assert httpx.get(url, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 401
    assert httpx.get(url, headers={"authorization": "Bearer another"}).status_code == 200


def test_web_pages_need_token_if_server_requires_certificates(extension: WebExtension) -> None:
    configure(extension)
    with pytest.raises(WebError, match="--web-token-file"):
        extension.start(LocalAccess("localhost:1", "unix:/nowhere", guarded=True))


def test_web_pages_of_open_server_show_jobs_to_local_machine(
    server: Server, extension: WebExtension
) -> None:
    configure(extension)
    assert httpx.get(f"http://{start(extension, server.server.door)}/").status_code == 200


def test_web_pages_are_announced_to_clients_of_server(
    server: Server, extension: WebExtension
) -> None:
    configure(extension)
    url = f"http://{start(extension, server.server.door)}"
    with JobClient(server.server.address) as client:
        assert client.pages().rstrip("/") == url
