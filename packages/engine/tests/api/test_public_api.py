"""Tests that the public API equals its listing and that release notes cover each change."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import beam_runner_engine

from .public_api import public_api

PACKAGE = Path(__file__).parents[2]


def test_public_api_matches_its_listing() -> None:
    """Checks the listing. A change of the API needs a new `public_api.txt`, see its header, and a
    release note.
    """
    written = (PACKAGE / "public_api.txt").read_text()
    assert written.splitlines() == public_api().splitlines()


def undeclared(listing: str, *notes: str) -> str | None:
    """Returns an error text if the release notes don't cover this listing of the API, otherwise
    None.

    Release notes contain the digest of the listing that they describe, and the newest digest
    counts. Therefore, a change of the API requires a note. `notes` are ordered from newest to
    oldest.
    """
    digest = hashlib.sha256(listing.encode()).hexdigest()[:16]
    told = re.search(r"^(?:- )?Public API: `(\w+)`$", "\n".join(notes), re.MULTILINE)
    if told is not None and told[1] == digest:
        return None
    return (
        "the public API has changed: say how in a fragment of release notes, and in changes/+listing.api.md\n"
        f"Public API: `{digest}`"
    )


def _listing_and_notes() -> tuple[str, list[str]]:
    fragments = [PACKAGE / "changes" / "+listing.api.md", PACKAGE / "CHANGELOG.md"]
    return (PACKAGE / "public_api.txt").read_text(), [
        each.read_text() for each in fragments if each.exists()
    ]


def test_public_api_change_has_a_release_note() -> None:
    listing, notes = _listing_and_notes()
    assert undeclared(listing, *notes) is None, undeclared(listing, *notes)


@pytest.mark.parametrize("told_as", ["{}\n", "## 0.2.0\n\n### Listing\n\n- {}\n"])
def test_public_api_change_without_a_release_note_is_reported(told_as: str) -> None:
    listing, notes = _listing_and_notes()
    changed = listing.replace("encode_window(", "write_window(", 1)
    assert changed != listing
    complaint = undeclared(changed, *notes)
    assert complaint is not None
    newest = told_as.format(complaint.splitlines()[-1])
    assert undeclared(changed, newest, *notes) is None
    assert undeclared(listing, newest, *notes) is not None, "an older note does not count"


def test_public_class_has_a_docstring() -> None:
    for name in beam_runner_engine.__all__:
        thing = getattr(beam_runner_engine, name)
        if isinstance(thing, type):
            assert thing.__doc__, name
