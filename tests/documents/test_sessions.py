"""Tests that the commands in the documents run, and have the documented output."""

from __future__ import annotations

from pathlib import Path

import pytest
from documents import list_session_pages, read_table
from page_sessions import mask, play_page, reason_without_namespaces

IN_CI = {"packages/server/README.md"}
SECONDS = 900.0
PAGES = [
    pytest.param(page, marks=() if page in IN_CI else pytest.mark.slow)
    for page in list_session_pages(read_table())
]


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("page", PAGES)
def test_commands_of_page_have_the_documented_output(page: str, tmp_path: Path) -> None:
    if reason := reason_without_namespaces():
        pytest.skip(f"NOT RUN: {reason}")
    done = play_page(page, tmp_path, SECONDS)
    assert done.returncode == 0, done.stdout[-8000:]


def test_masked_command_outputs_are_equal_if_only_numbers_and_ids_differ() -> None:
    assert mask("job a-1-4adcf7e5, 4 s\n") == mask("job a-23-00ddc7e5, 12 s")
    assert mask("job a-1-4adcf7e5") != mask("job b-1-4adcf7e5")
