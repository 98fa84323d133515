"""The public API is the one that is written down, and there is no other."""

from __future__ import annotations

from pathlib import Path

import beam_runner_engine

from .public_api import public_api

PACKAGE = Path(__file__).parents[2]


def test_public_api_is_written_down() -> None:
    """A change needs a new `public_api.txt`, whose header says how, and a changelog entry."""
    written = (PACKAGE / "public_api.txt").read_text()
    assert written.splitlines() == public_api().splitlines()


def test_every_public_name_says_what_it_is() -> None:
    for name in beam_runner_engine.__all__:
        thing = getattr(beam_runner_engine, name)
        if isinstance(thing, type):
            assert thing.__doc__, name
