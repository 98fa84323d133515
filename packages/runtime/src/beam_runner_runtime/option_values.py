"""Access to the values of pipeline options, and the class of options with text values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from beam_runner_model.jobs import OptionType
from beam_runner_model.texts import truncate_text
from beam_runner_urns import options as option_urns

from beam_runner_runtime.option_errors import InvalidOptionError

_SHOWN = 100


def make_option_key(name: str) -> str:
    """Returns the key that clients send for an option; the name has no dashes."""
    return f"{option_urns.PREFIX}{name}{option_urns.SUFFIX}"


def read_option_value(options: Mapping[str, Any], name: str) -> Any:
    """Returns the value of an option in a job's options, or None if the option is absent."""
    return options.get(make_option_key(name))


def remove_options(options: Mapping[str, Any], names: Iterable[str]) -> Mapping[str, Any]:
    """Returns a job's options without the options with these names."""
    removed = {make_option_key(name) for name in names}
    return {key: value for key, value in options.items() if key not in removed}


def format_option_value(value: Any) -> str:
    """Returns a value as text for an error message; truncates long values."""
    return truncate_text(repr(value), _SHOWN)


@attrs.frozen
class TextOption:
    """Pipeline option with a text as its value.

    Attributes:
        name: name without dashes.
        metavar: placeholder for the value.
        description: text for ``--help``, with the default.
    """

    name: str
    metavar: str
    description: str
    is_repeated: bool = False

    @property
    def type(self) -> OptionType:
        """Type of the option, for the Job API."""
        return OptionType.ARRAY if self.is_repeated else OptionType.STRING

    def parse_value(self, options: Mapping[str, Any], expected: str = "") -> tuple[str, ...]:
        """Returns the values from a job's options; empty if the option is absent.

        Args:
            expected: description of a valid value for the error; by default the metavar.

        Raises:
            InvalidOptionError: A value isn't a text, or is empty.
        """
        value = read_option_value(options, self.name)
        if value is None:
            return ()
        values = value if isinstance(value, list) and self.is_repeated else [value]
        if not all(isinstance(one, str) and one.strip() for one in values):
            raise InvalidOptionError(
                f"--{self.name} is {format_option_value(value)}; expected"
                f" {expected or self.metavar}"
            )
        return tuple(values)
