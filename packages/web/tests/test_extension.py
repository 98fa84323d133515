from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from beam_runner_jobservices.channels import Credentials
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.guard import AccessGuard, read_access_guard
from beam_runner_jobservices.local_access import LocalAccess
from beam_runner_model.jobs import JobState

from beam_runner_web.extension import WebExtension
from beam_runner_web.server import WebError

from .conftest import Server, word_count

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
    parser.set_defaults(serve_http=True)
    extension.configure(parser.parse_args(["--web-port=0", *flags]))


def start(extension: WebExtension, door: LocalAccess) -> str:
    """Starts the extension, and returns the address of the pages."""
    return extension.start(door).partition("http://")[2].partition("/")[0]


def test_web_pages_of_server_with_token_require_token(
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


def test_web_pages_of_server_without_token_show_jobs_on_local_machine(
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
        assert client.get_pages_url().rstrip("/") == url


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users.toml"
    path.write_text(
        "".join(
            f'[users.{name}]\ntoken = "the token of {name}"\nrights = {rights}\n'
            for name, rights in (
                ("reader", '["read"]'),
                ("ender", '["read", "cancel"]'),
                ("submitter", '["submit"]'),
                ("ann", '["submit", "read"]'),
                ("owner", '["submit", "read", "cancel"]\njobs = "own"'),
            )
        )
    )
    return path


@pytest.fixture
def with_users(tmp_path: Path, users: Path) -> Iterator[Server]:
    (tmp_path / "own").mkdir(mode=0o700)
    server = Server(
        tmp_path / "artifacts",
        guard=read_access_guard(users_file=users),
        socket_path=tmp_path / "own" / "jobs",
    )
    yield server
    server.close()


def test_web_pages_of_server_with_users_respect_user_rights(
    with_users: Server, extension: WebExtension, users: Path
) -> None:
    job = with_users.submit(name="secret work")
    configure(extension)
    url = f"http://{start(extension, with_users.server.door)}"
    cancel = f"{url}/jobs/{job.id}/cancel"

    def shown(name: str) -> dict[str, str]:
        return {"authorization": f"Bearer the token of {name}"}

    assert httpx.get(f"{url}/", follow_redirects=False).headers["location"] == "/login"
    assert httpx.get(f"{url}/api/v1/jobs", headers=shown("nobody")).status_code == 401
    assert "secret work" in httpx.get(f"{url}/", headers=shown("reader")).text
    refused = httpx.get(f"{url}/", headers=shown("submitter"))
    assert refused.status_code == 403
    assert all(part in refused.text for part in ("'submitter'", "'read'", str(users)))
    refused = httpx.post(cancel, headers=shown("reader"))
    assert refused.status_code == 403
    assert all(part in refused.text for part in ("'reader'", "'cancel'", str(users)))
    assert with_users.client.get_state(job.id).state is JobState.RUNNING
    assert httpx.post(cancel, headers=shown("ender")).status_code == 303
    assert with_users.client.get_state(job.id).state is JobState.CANCELLED


def test_user_with_rights_to_own_jobs_only_is_refused_by_web_pages(
    with_users: Server, extension: WebExtension
) -> None:
    with_users.submit(name="secret work")
    configure(extension)
    url = f"http://{start(extension, with_users.server.door)}"
    headers = {"authorization": "Bearer the token of owner"}
    for path in ("/", "/api/v1/jobs", "/metrics"):
        refused = httpx.get(f"{url}{path}", headers=headers)
        assert refused.status_code == 403
        assert "sees only own jobs" in refused.text
        assert "secret" not in refused.text


def test_user_logs_in_to_web_pages_with_own_token(
    with_users: Server, extension: WebExtension
) -> None:
    configure(extension)
    url = f"http://{start(extension, with_users.server.door)}"
    with httpx.Client() as browser:
        wrong = browser.post(f"{url}/login", data={"token": "another token of reader"})
        assert wrong.status_code == 403
        assert browser.post(f"{url}/login", data={"token": "the token of reader"}).is_redirect
        assert browser.get(f"{url}/").status_code == 200


def test_web_pages_show_user_who_submitted_job(with_users: Server, extension: WebExtension) -> None:
    configure(extension)
    url = f"http://{start(extension, with_users.server.door)}"
    shown = {"authorization": "Bearer the token of reader"}
    with_users.submit()
    assert "ann" not in httpx.get(f"{url}/", headers=shown).text
    credentials = Credentials(token="the token of ann")
    with JobClient(with_users.server.address, credentials=credentials) as client:
        job_id = client.submit_job(word_count().SerializeToString())
    assert "<td>ann</td>" in httpx.get(f"{url}/", headers=shown).text
    assert httpx.get(f"{url}/?name=ann", headers=shown).text.count("<tr id=") == 1
    assert "submitted by ann" in httpx.get(f"{url}/jobs/{job_id}", headers=shown).text
