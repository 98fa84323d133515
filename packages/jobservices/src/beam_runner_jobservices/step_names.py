"""Lookup of steps by the names in messages and metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PREFIX = re.compile(r"^\[(?P<step>[^\n]+?)\] ")
_LONGEST_PREFIX = 1_000


class StepNames:
    """Index of a pipeline's steps, by id and by full name."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._by_name = {name: key for key, name in names.items() if name}

    def find_step(self, name: str) -> str:
        """Returns the id of the step that `name` refers to; empty if no step matches.

        `name` can be an id or a full name. For a step that the runner has made inside another step,
        the result is the innermost enclosing step.
        """
        if name in self._names:
            return name
        while name:
            if name in self._by_name:
                return self._by_name[name]
            name = name.rpartition("/")[0]
        return ""

    def find_step_by_full_name(self, name: str) -> str:
        """Returns the id of the step with exactly this full name; empty if no step matches."""
        return self._by_name.get(name, "")

    def split_step_name(self, text: str) -> tuple[str, str]:
        """Splits a message into the id of the step that it names, and the text without this name.

        A message can start with the step's name in brackets. If the text in brackets is not the name
        of a step, the text stays unchanged, and the id is empty.
        """
        found = _PREFIX.match(text)
        if found is not None:
            for end in (found.end("step"), *_find_closing_brackets(text)):
                step = self.find_step(text[1:end]) if text[end : end + 2] == "] " else ""
                if step and text[1:end].startswith(self._names[step]):
                    return step, text[end + 2 :]
        return "", text


def _find_closing_brackets(text: str) -> list[int]:
    """Returns the positions of closing brackets in the first line. A name can contain brackets, so each
    position may be the end of the name.
    """
    line = text.partition("\n")[0]
    return [at for at, character in enumerate(line[:_LONGEST_PREFIX]) if character == "]"]
