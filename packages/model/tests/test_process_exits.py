"""The text of exits of processes."""

from __future__ import annotations

import pytest

from beam_runner_model.process_exits import ProcessExit


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (-11, "was killed by SIGSEGV"),
        (-200, "was killed by signal 200"),
        (3, "exited with code 3"),
        (137, "exited with code 137, which means SIGKILL"),
    ],
)
def test_process_exit_text_names_the_code_or_signal(code: int, text: str) -> None:
    assert ProcessExit(code).text == text


def test_process_exit_text_after_an_out_of_memory_kill_gives_advice() -> None:
    text = ProcessExit(-9, lacked_memory=True).text
    assert text.startswith("was killed by SIGKILL, because the memory")
    assert "increase the memory" in text


def test_process_exit_is_an_out_of_memory_kill_only_for_sigkill() -> None:
    assert [code for code in (-9, 137, -11, 1, 0) if ProcessExit(code).was_killed] == [-9, 137]
