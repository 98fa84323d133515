"""Tests of parallel nox sessions: all sessions run, and each failed session is named."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools import side_by_side
from tools.side_by_side import EndedSession, SessionQueue


@pytest.mark.parametrize(("failing", "code"), [((), 0), (("b",), 1)])
def test_parallel_nox_sessions_all_run_and_failures_are_reported(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    failing: tuple[str, ...],
    code: int,
) -> None:
    def run(name: str, environment: Mapping[str, str]) -> EndedSession:
        assert environment[side_by_side.PREPARED] == "1"
        return EndedSession(name, int(name in failing), 7, 9, "")

    monkeypatch.setattr(side_by_side, "CACHES", tmp_path)
    monkeypatch.setattr(side_by_side, "run_session", run)
    assert side_by_side.main(["a", "b", "c"]) == code
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines == [
        f"side by side > {name} {'failed' if name in failing else 'ended well'} after 7 s, 9 s of CPU"
        for name in "abc"
    ]


def test_nox_session_that_waits_runs_together_with_a_session_that_computes() -> None:
    queue = SessionQueue(["a", "waits", "b", "waits, too"], {"waits", "waits, too"})
    waiting, computing = queue.take_names(waiting=True), queue.take_names(waiting=False)
    assert [next(waiting), next(computing)] == ["waits", "a"]
    assert [next(waiting), next(waiting), next(computing, None)] == ["waits, too", "b", None]


def test_parallel_nox_session_output_is_stored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended = side_by_side.run_session("no_such_session", {"NOX_SCRIPT_MODE": "none"})
    assert ended.code != 0
    assert "no_such_session" in ended.output
    assert capsys.readouterr().out.endswith(f"{side_by_side.describe_outcome(ended)}\n")


@pytest.mark.parametrize(("fails_again", "code"), [(False, 0), (True, 1)])
def test_failed_test_runs_again_alone_and_only_a_second_failure_counts(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    fails_again: bool,
    code: int,
) -> None:
    runs: list[tuple[str, bool]] = []

    def run(name: str, environment: Mapping[str, str]) -> EndedSession:
        repeated = side_by_side.REPEATED in environment
        runs.append((name, repeated))
        return EndedSession(name, int(name == "b" and (fails_again or not repeated)), 7, 9, "")

    cache = tmp_path / "b" / "v" / "cache"
    cache.mkdir(parents=True)
    (cache / "lastfailed").write_text(json.dumps({"test_x.py::test_y": True}))
    monkeypatch.setattr(side_by_side, "CACHES", tmp_path)
    monkeypatch.setattr(side_by_side, "run_session", run)
    assert side_by_side.main(["a", "b"]) == code
    assert sorted(runs) == [("a", False), ("b", False), ("b", True)]
    assert ("test_x.py::test_y" in capsys.readouterr().out) is not fails_again


def test_session_that_fails_without_failed_tests_does_not_run_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs: list[str] = []

    def run(name: str, environment: Mapping[str, str]) -> EndedSession:
        runs.append(name)
        return EndedSession(name, 1, 7, 9, "")

    monkeypatch.setattr(side_by_side, "CACHES", tmp_path)
    monkeypatch.setattr(side_by_side, "run_session", run)
    assert side_by_side.main(["lint"]) == 1
    assert runs == ["lint"]
