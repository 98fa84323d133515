"""Generator of the public API listing: each public name with its signature, one per line.

Run `python packages/engine/tests/api/public_api.py > packages/engine/public_api.txt`.
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

HEADER = """\
# The public API of beam-runner-engine: what `__all__` of these modules lists.
# A change here comes with an entry in CHANGELOG.md. Written by:
#   python packages/engine/tests/api/public_api.py > packages/engine/public_api.txt
"""
MODULES = ("beam_runner_engine", "beam_runner_engine.testing")


def public_api() -> str:
    """Returns the text of `public_api.txt`."""
    lines = [HEADER]
    for name in MODULES:
        module = __import__(name, fromlist=["__all__"])
        lines.append(f"\n[{name}]\n")
        for public in sorted(module.__all__):
            lines.extend(f"{line}\n" for line in _spell(public, getattr(module, public)))
    return "".join(lines)


def _spell(name: str, thing: Any) -> Iterator[str]:
    if isinstance(thing, type) and thing.__module__ == "builtins":
        yield f"{name} = {thing.__name__}"
    elif inspect.isclass(thing):
        yield from _spell_class(name, thing)
    elif inspect.isfunction(thing):
        yield f"{name}{_signature(thing)}"
    elif isinstance(thing, int):
        yield f"{name} = {thing}"
    elif type(thing).__module__.startswith("beam_runner_engine"):
        yield f"{name}: {type(thing).__name__}"
    else:
        yield f"{name} = {_plain(str(thing))}"


def _spell_class(name: str, cls: type) -> Iterator[str]:
    if issubclass(cls, enum.Enum):
        yield f"{name}: " + ", ".join(cls.__members__)
        return
    abstract = getattr(cls, "_is_protocol", False)
    yield f"{name}: Protocol" if abstract else f"{name}{_signature(cls)}"
    for method in sorted(vars(cls)):
        member = vars(cls)[method]
        if method.startswith("_"):
            continue
        if inspect.isfunction(member):
            yield f"  .{method}{_signature(member)}"
        elif isinstance(member, property):
            yield f"  .{method}"


def _signature(thing: Any) -> str:
    """Returns the signature of a callable, with types as written in the source."""
    try:
        signature = inspect.signature(thing)
    except ValueError:
        return ""
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.default is not inspect.Parameter.empty and "object at 0x" in str(
            parameter.default
        ):
            parameter = parameter.replace(default=...)
        parameters.append(parameter)
    return _plain(str(signature.replace(parameters=parameters)))


def _plain(text: str) -> str:
    """Returns text without differences between versions of Python and attrs."""
    for noise in ("beam_runner_engine.", "typing.", "collections.abc."):
        text = text.replace(noise, "")
    text = re.sub(r"ForwardRef\((.*?)\)", r"\1", text)
    return text.replace("'", "").replace('"', "")


if __name__ == "__main__":
    sys.stdout.write(public_api())
