"""The public API is the one that is written down, and there is no other."""

from __future__ import annotations

import hashlib
from pathlib import Path

import beam_runner_engine

from .public_api import public_api

PACKAGE = Path(__file__).parents[2]


def test_public_api_is_written_down() -> None:
    """A change needs a new `public_api.txt`, whose header says how, and a changelog entry."""
    written = (PACKAGE / "public_api.txt").read_text()
    assert written.splitlines() == public_api().splitlines()


def undeclared(listing: str, changelog: str) -> str | None:
    """Returns what the changelog's newest section lacks for this listing of the API, None if nothing.

    The section ends with the digest of the listing it speaks of. So a change of the API can't come
    without one of the changelog.
    """
    newest = changelog.split("\n## ")[1]
    digest = hashlib.sha256(listing.encode()).hexdigest()[:16]
    if f"\nPublic API: `{digest}`\n" in f"{newest}\n":
        return None
    return (
        "the public API has changed: say how in the newest section of CHANGELOG.md, and end it with\n"
        f"Public API: `{digest}`"
    )


def test_a_change_of_the_public_api_is_in_the_changelog() -> None:
    listing, changelog = (
        (PACKAGE / name).read_text() for name in ("public_api.txt", "CHANGELOG.md")
    )
    assert undeclared(listing, changelog) is None, undeclared(listing, changelog)


def test_a_change_that_the_changelog_does_not_speak_of_is_found() -> None:
    listing, changelog = (
        (PACKAGE / name).read_text() for name in ("public_api.txt", "CHANGELOG.md")
    )
    changed = listing.replace("encode_window(", "write_window(", 1)
    assert changed != listing
    complaint = undeclared(changed, changelog)
    assert complaint is not None
    entry = complaint.splitlines()[-1]
    old = changelog.index("## 0.1.0")
    new_section = f"{changelog[:old]}## 0.2.0\n\n- `encode_window` is now `write_window`.\n\n{entry}\n\n{changelog[old:]}"
    assert undeclared(changed, new_section) is None
    assert undeclared(listing, new_section) is not None, "an older section does not count"


def test_every_public_name_says_what_it_is() -> None:
    for name in beam_runner_engine.__all__:
        thing = getattr(beam_runner_engine, name)
        if isinstance(thing, type):
            assert thing.__doc__, name
