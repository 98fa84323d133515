"""Sessions that run side by side: all of them run, and each that fails is named."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools import side_by_side
from tools.side_by_side import Ended


@pytest.mark.parametrize(("failing", "code"), [((), 0), (("b",), 1)])
def test_all_sessions_run_and_failures_are_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failing: tuple[str, ...],
    code: int,
) -> None:
    def run(name: str, environment: Mapping[str, str]) -> Ended:
        assert environment[side_by_side.PREPARED] == "1"
        return Ended(name, int(name in failing), 7, "")

    monkeypatch.setattr(side_by_side, "run_session", run)
    assert side_by_side.main(["a", "b", "c"]) == code
    told = capsys.readouterr().out.splitlines()[1:]
    assert told == [
        f"side by side > {name} {'failed' if name in failing else 'ended well'} after 7 s"
        for name in "abc"
    ]
