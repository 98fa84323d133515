"""Extensions of the server, such as the web interface. The server finds extensions by the entry
points of installed distributions.

An entry point of the group ``beam_runner.extensions`` names a class whose instances are
`Extension`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from beam_runner_jobservices.local_access import LocalAccess

GROUP = "beam_runner.extensions"

log = logging.getLogger(__name__)


class Extension(Protocol):
    """Interface of an additional service of the server, which uses the Job API like any other client."""

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """Adds the flags of the extension to the command line. Called before `configure`; must be
        fast, because ``--help`` waits for it.
        """

    def configure(self, found: argparse.Namespace) -> bool:
        """Receives the values of all flags, and returns whether the server starts the extension.

        Raises:
            ValueError: a value is wrong; the text says which.
        """

    def start(self, door: LocalAccess) -> str:
        """Starts the extension, and returns a line of text for the user.

        ``door`` is the extension's access to the Job API. If the server requires credentials, the
        extension must require them, too.

        Raises:
            RuntimeError: the extension can't start; the text says why. The server goes on without it.
        """

    def stop(self) -> None:
        """Stops the extension. Also called after a failed `start`, and without `start`."""


def find_extensions() -> tuple[Extension, ...]:
    """Returns the installed extensions by name. The server logs an extension that can't be loaded, and skips it."""
    found: list[Extension] = []
    for entry in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda one: one.name):
        try:
            found.append(entry.load()())
        except Exception:
            log.warning("Can't load the extension %s (%s)", entry.name, entry.value, exc_info=True)
    return tuple(found)


def start_extensions(extensions: Sequence[Extension], door: LocalAccess) -> list[str]:
    """Starts extensions; returns their lines for the user, with an error in place of the line of a failed extension."""
    told = []
    for extension in extensions:
        try:
            told.append(extension.start(door))
        except Exception as error:
            text = str(error) or type(error).__name__
            # Other errors are defects of the extension, for which the traceback matters.
            log.warning("%s", text, exc_info=not isinstance(error, RuntimeError))
            told.append(text)
    return told
