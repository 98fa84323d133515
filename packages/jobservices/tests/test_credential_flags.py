from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from beam_runner_jobservices.channels import Credentials
from beam_runner_jobservices.credential_flags import add_credential_flags, read_credentials
from beam_runner_jobservices.errors import JobServicesError

TOKEN = "0123456789abcdef"


def credentials(*arguments: str, prefix: str = "") -> Credentials:
    parser = argparse.ArgumentParser()
    add_credential_flags(parser.add_argument, prefix)
    return read_credentials(parser.parse_args(arguments), prefix)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name in ("token", "ca", "cert", "key"):
        (tmp_path / name).write_text(TOKEN if name == "token" else name)
    return tmp_path


def test_credentials_without_flags_are_empty() -> None:
    assert credentials() == Credentials()


@pytest.mark.parametrize("prefix", ["", "job-"])
def test_credentials_contain_content_of_files_in_flags(files: Path, prefix: str) -> None:
    assert credentials(f"--{prefix}token-file={files / 'token'}", prefix=prefix) == Credentials(
        TOKEN
    )
    assert credentials(f"--{prefix}tls", prefix=prefix) == Credentials(tls=True)
    assert credentials(f"--{prefix}tls-ca={files / 'ca'}", prefix=prefix) == Credentials(
        tls=True, authority=b"ca"
    )
    both = (f"--{prefix}tls-cert={files / 'cert'}", f"--{prefix}tls-key={files / 'key'}")
    assert credentials(*both, prefix=prefix) == Credentials(
        tls=True, certificate=b"cert", key=b"key"
    )


def test_client_certificate_flag_without_key_flag_is_refused(files: Path) -> None:
    with pytest.raises(JobServicesError, match="--job-tls-key"):
        credentials(f"--job-tls-cert={files / 'cert'}", prefix="job-")


def test_missing_credential_file_is_reported_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(JobServicesError, match="missing"):
        credentials(f"--token-file={tmp_path / 'missing'}")
