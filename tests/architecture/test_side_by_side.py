"""Tests of parallel nox sessions: all sessions run, and each failed session is named."""

from __future__ import annotations

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
    failing: tuple[str, ...],
    code: int,
) -> None:
    def run(name: str, environment: Mapping[str, str]) -> EndedSession:
        assert environment[side_by_side.PREPARED] == "1"
        return EndedSession(name, int(name in failing), 7, 9, "")

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
