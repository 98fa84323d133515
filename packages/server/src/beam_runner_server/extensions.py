"""What other distributions add to the server, found by their entry points: its web interface, say.

An entry point of the group ``beam_runner.extensions`` names a class whose instances are `Extension`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from beam_runner_jobservices.door import Door

GROUP = "beam_runner.extensions"

log = logging.getLogger(__name__)


class Extension(Protocol):
    """Something that is served beside the Job API. It speaks to the server as any client does."""

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """Adds its flags to the command line; called first. To be quick: ``--help`` waits for it."""

    def configure(self, found: argparse.Namespace) -> None:
        """Takes the values of its flags.

        Raises:
            ValueError: a value is wrong; says which.
        """

    def start(self, door: Door) -> str:
        """Serves beside the Job API, which it reaches by ``door``; returns what to tell the user, in a
        line. Where others have to show something to the server, so have they to it.

        Raises:
            Exception: it cannot; the server goes on without it.
        """

    def stop(self) -> None:
        """Ends what `start` began; also called where that failed, and before it."""


def find() -> tuple[Extension, ...]:
    """The extensions that are installed, by name; one that cannot be loaded is told and left out."""
    found: list[Extension] = []
    for entry in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda one: one.name):
        try:
            found.append(entry.load()())
        except Exception:
            log.warning(
                "the extension %s (%s) cannot be loaded", entry.name, entry.value, exc_info=True
            )
    return tuple(found)


def start(extensions: Sequence[Extension], door: Door) -> list[str]:
    """Starts extensions; returns what they tell the user. One that fails is told in their place."""
    told = []
    for extension in extensions:
        try:
            told.append(extension.start(door))
        except Exception as error:
            log.warning("an extension was not started", exc_info=True)
            told.append(str(error) or type(error).__name__)
    return told
