"""Tests of a server that can't start: it prints one sentence, returns 1 and leaves no file."""

from __future__ import annotations

import argparse
import logging
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from beam_runner_runtime.processes.placement import ProcessPlacement
from beam_runner_storage.durable.folders import lock_folder

from beam_runner_server import cli
from beam_runner_server.plain import DeferredPlatform, PlainProgram
from beam_runner_server.ports import Platform

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Program(PlainProgram):
    """A command whose platform starts no process."""

    def create_platform(self, found: argparse.Namespace) -> Platform:
        return DeferredPlatform(lambda: ProcessPlacement(1))


@pytest.fixture
def refusal(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Callable[..., str]]:
    """Returns a function that starts a server, which must fail, and returns the printed sentence."""
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    root = logging.getLogger()
    logging_before = (root.level, list(root.handlers))

    def start(*flags: str) -> str:
        assert cli.main(("--job-port=0", *flags), Program()) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        assert list(temporary.iterdir()) == []
        (sentence,) = printed.err.splitlines()
        return sentence.removeprefix("beam-runner-jobserver: ")

    yield start
    root.setLevel(logging_before[0])
    root.handlers[:] = logging_before[1]
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("lock", ["jobs.lock", "journal.lock"])
def test_server_start_with_state_folder_in_use_is_reported(
    refusal: Callable[..., str], tmp_path: Path, lock: str
) -> None:
    with lock_folder(tmp_path, lock, "state"):
        sentence = refusal(f"--state-dir={tmp_path}")
    assert f"the state folder {tmp_path} is in use by another server" in sentence


def test_server_start_with_foreign_files_in_state_folder_is_refused(
    refusal: Callable[..., str], tmp_path: Path
) -> None:
    chapter = tmp_path / "jobs" / "thesis" / "chapter1.txt"
    chapter.parent.mkdir(parents=True)
    chapter.write_text("years of work")
    sentence = refusal(f"--state-dir={tmp_path}")
    assert f"Can't use {tmp_path} as state folder: the folder contains 'jobs'" in sentence
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [chapter]
