"""Environment variables that a job sends to the processes of its user code.

The user names each variable with the option `--beam_spark_env`. The client never sends its complete
environment, because it contains credentials and paths of the client's machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from beam_runner_model.jobs import OptionType
from beam_runner_model.texts import truncate_text
from beam_runner_urns import options as option_urns

from beam_runner_runtime.option_errors import InvalidOptionError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_READ_BEFORE = ("LD_", "PYTHON")
"""Prefixes of variables that can't be set per job, because a process reads these variables when it
starts.
"""
_SHOWN = 100


@attrs.frozen
class EnvironmentVariablesOption:
    """Repeatable pipeline option with environment variables, as ``NAME=VALUE``.

    Attributes:
        name: name without dashes.
        description: text for ``--help``.
    """

    name: str
    description: str

    @property
    def type(self) -> OptionType:
        """Type of the option, for the Job API."""
        return OptionType.ARRAY

    def parse_value(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Returns the environment variables in a job's options, by name. If a name occurs twice,
        the last value counts.

        Raises:
            InvalidOptionError: A text isn't ``NAME=VALUE``, or names a variable without effect.
        """
        value = options.get(option_urns.VARIABLES)
        texts = [] if value is None else value if isinstance(value, list | tuple) else [value]
        return dict(self._parse_text(text) for text in texts)

    def complete_texts(self, texts: Iterable[str], environment: Mapping[str, str]) -> list[str]:
        """Adds values from `environment` to texts that contain only a name, and returns the
        complete texts.

        Raises:
            InvalidOptionError: A name without a value isn't in `environment`.
        """
        return [text if "=" in text else self._add_value(text, environment) for text in texts]

    def _add_value(self, name: str, environment: Mapping[str, str]) -> str:
        if name not in environment:
            raise InvalidOptionError(
                f"--{self.name}={_shorten_value(name)}: this program has no environment variable "
                "of this"
                " name; set the variable, or write NAME=VALUE"
            )
        return f"{name}={environment[name]}"

    def _parse_text(self, text: Any) -> tuple[str, str]:
        name, equals, value = str(text).partition("=")
        if not isinstance(text, str) or not _NAME.fullmatch(name) or "\0" in value:
            raise InvalidOptionError(
                f"--{self.name} is {_shorten_value(repr(name))}; expected NAME=VALUE, where NAME "
                "has"
                " letters, digits and underscores"
            )
        if not equals:
            raise InvalidOptionError(
                f"--{self.name}={_shorten_value(name)} has no value: only BeamSparkRunner reads "
                "values"
                " from the environment of its program; write NAME=VALUE"
            )
        if name.startswith(_READ_BEFORE):
            raise InvalidOptionError(
                f"--{self.name}={_shorten_value(name)} has no effect, because worker processes "
                "read this"
                " variable before they know their job; set it where the server starts"
            )
        return name, value


def _shorten_value(text: str) -> str:
    return truncate_text(text, _SHOWN)
