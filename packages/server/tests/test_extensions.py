from __future__ import annotations

import argparse
import importlib.metadata

import pytest
from beam_runner_jobservices.local_access import LocalAccess

from beam_runner_server import extensions, flags
from beam_runner_server.plain import PlainProgram

DOOR = LocalAccess("localhost:1", "localhost:1")


class Pages:
    """An extension without any service."""

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--pages", default="some")

    def configure(self, found: argparse.Namespace) -> bool:
        if found.pages == "none":
            raise ValueError("--pages: none is too few")
        self.pages = found.pages
        return bool(found.serve_http)

    def start(self, door: LocalAccess) -> str:
        if self.pages == "torn":
            raise OSError("the pages are torn")
        if self.pages == "refused":
            raise RuntimeError("the port is in use")
        return f"{self.pages} pages of {door.address}"

    def stop(self) -> None:
        pass


class Broken:
    def __init__(self) -> None:
        raise ImportError("a library is missing")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry_points(group: str) -> list[importlib.metadata.EntryPoint]:
        assert group == "beam_runner.extensions"
        return [
            importlib.metadata.EntryPoint(n, f"{__name__}:{n}", group) for n in ("Pages", "Broken")
        ]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    monkeypatch.setattr(
        importlib.metadata.EntryPoint,
        "load",
        lambda entry: {"Pages": Pages, "Broken": Broken}[entry.name],
    )


def test_server_extension_adds_flags_and_is_started() -> None:
    settings = flags.parse_command_line(["--pages=all"], PlainProgram())
    assert extensions.start_extensions(settings.extensions, DOOR) == ["all pages of localhost:1"]


def test_server_extension_that_cannot_start_is_reported_and_others_start() -> None:
    settings = flags.parse_command_line(["--pages", "torn"], PlainProgram())
    assert extensions.start_extensions(settings.extensions, DOOR) == ["the pages are torn"]


@pytest.mark.parametrize(
    ("value", "message", "has_traceback"),
    [("refused", "the port is in use", False), ("torn", "the pages are torn", True)],
)
def test_unexpected_error_of_server_extension_logs_traceback(
    value: str, message: str, has_traceback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    settings = flags.parse_command_line(["--pages", value], PlainProgram())
    caplog.clear()
    extensions.start_extensions(settings.extensions, DOOR)
    (record,) = caplog.records
    assert record.getMessage() == message
    assert bool(record.exc_info) is has_traceback


def test_server_extension_flag_with_wrong_value_exits_with_code_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as exit_:
        flags.parse_command_line(["--pages=none"], PlainProgram())
    assert exit_.value.code == 2
    assert "--pages: none is too few" in capsys.readouterr().err


def test_server_extensions_can_be_disabled() -> None:
    assert flags.parse_command_line(["--serve-http=false"], PlainProgram()).extensions == ()


def test_server_extension_flag_accepts_truth_values(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        flags.parse_command_line(["--serve-http=maybe"], PlainProgram())
    assert "expected true or false, got 'maybe'" in capsys.readouterr().err
