"""Base class of extensions that export data about jobs with an optional library."""

from __future__ import annotations

import argparse
import importlib.util
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from beam_runner_jobservices.local_access import LocalAccess

    from beam_runner_server.observers.watch import JobExporter, JobWatch

_OFF = ("", "0", "false", "no", "off")


class ObserverExtension(ABC):
    """Extension that observes jobs. Its flag or its environment variable enables it.

    Attributes:
        flag: the flag that turns the extension on.
        variable: the environment variable that turns the extension on.
        description: the help text of the flag.
        modules: the modules of the optional library.
        extra: the extra that installs the library.
    """

    flag: ClassVar[str]
    variable: ClassVar[str]
    description: ClassVar[str]
    modules: ClassVar[tuple[str, ...]]
    extra: ClassVar[str]

    def __init__(self) -> None:
        self._watch: JobWatch | None = None

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """Adds the flag."""
        parser.add_argument(self.flag, action="store_true", help=self.description)

    def configure(self, found: argparse.Namespace) -> bool:
        """Returns whether the flag or the variable is set.

        Raises:
            ValueError: the library isn't installed.
        """
        is_set = getattr(found, self.flag.lstrip("-").replace("-", "_"))
        named = self.flag if is_set else self.variable
        if not is_set and os.environ.get(self.variable, "").lower() in _OFF:
            return False
        if not all(map(_is_installed, self.modules)):
            raise ValueError(
                f"{named} needs libraries that aren't installed: python3 -m pip install"
                f" 'beam-runner-server[{self.extra}]'"
            )
        return True

    def start(self, door: LocalAccess) -> str:
        """Starts to observe jobs, and returns a line of text for the user.

        Raises:
            RuntimeError: the configuration of the library is wrong.
        """
        # Import JobWatch here: its module loads gRPC, which is slow, and the flags must be available before.
        from beam_runner_server.observers.watch import JobWatch

        exporter, line = self.create_exporter(door)
        self._watch = JobWatch(door, exporter)
        return line

    def stop(self) -> None:
        """Exports the remaining data, and stops to observe jobs."""
        if self._watch is not None:
            self._watch.stop()

    @abstractmethod
    def create_exporter(self, door: LocalAccess) -> tuple[JobExporter, str]:
        """Returns the exporter that exports records, and a line of text for the user.

        Raises:
            RuntimeError: the configuration of the library is wrong.
        """


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
