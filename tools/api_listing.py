"""Writer of the files `public_api.txt`: public names with their signatures, which griffe reads from source text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import griffe

from tools.api_users import find_package_folders

_LONGEST_VALUE = 80
Blocks = dict[tuple[str, str], list[str]]
"""Lines of the listing by module and name. The name ``""`` is for a module that is imported without a name."""


@dataclass
class Listing:
    """Used names of one package, and names that can't be part of its public API.

    Attributes:
        blocks: public names with their lines.
        problems: used names that other packages must not use.
    """

    blocks: Blocks = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def list_public_names(root: Path, users: Mapping[str, str]) -> dict[str, Listing]:
    """Returns the listing of each package by its import name.

    Args:
        root: repository folder.
        users: used names, each with one place that uses it.
    """
    found = find_package_folders(root)
    loader = griffe.GriffeLoader(search_paths=[folder.parent for folder in found.values()])
    for name in found:
        loader.load(name)
    result = {name: Listing() for name in found}
    for name, place in sorted(users.items()):
        _add_used_name(result[name.partition(".")[0]], loader.modules_collection, name, place)
    return result


def _add_used_name(
    listing: Listing, modules: griffe.ModulesCollection, name: str, place: str
) -> None:
    """Adds one used name to a listing, or to its problems."""
    module, rest = _split_full_name(modules, name)
    if any(part.startswith("_") for part in (*module.path.split("."), *rest[:1])):
        listing.problems.append(f"{place}: `{name}` is private")
        return
    listing.blocks.setdefault((module.path, ""), [])
    if not rest:
        return
    thing = module.members.get(rest[0])
    if thing is None:
        listing.problems.append(f"{place}: `{module.path}` has no name `{rest[0]}`")
        return
    if thing.is_alias:
        home = thing.target_path  # type: ignore[union-attr]
        if not (module.parent is None and rest[0] in (module.exports or ())):
            listing.problems.append(f"{place}: import `{rest[0]}` from its home, as `{home}`")
            return
        home_module, [own] = _split_full_name(modules, home)
        thing = home_module.members[own]
    listing.blocks[module.path, rest[0]] = list(describe_name(rest[0], thing))


def _split_full_name(
    modules: griffe.ModulesCollection, name: str
) -> tuple[griffe.Module, list[str]]:
    """Splits a full name into its module and the rest."""
    first, *rest = name.split(".")
    module = modules[first]
    while rest and rest[0] in module.modules:
        module = module.modules[rest.pop(0)]
    return module, rest


def describe_name(name: str, thing: griffe.Object | griffe.Alias) -> Iterator[str]:
    """Yields the lines of a name: its signature, and for a class its public members."""
    if isinstance(thing, griffe.Class):
        yield f"class {name}{_base_classes(thing)}"
        for member in sorted(thing.members.values(), key=_make_member_sort_key):
            if not member.is_alias and (
                not member.name.startswith("_") or member.name == "__init__"
            ):
                yield f"  .{_format_signature_line(member.name, member)}"
    else:
        yield _format_signature_line(name, thing)


def _base_classes(cls: griffe.Class) -> str:
    return f"({', '.join(map(str, cls.bases))})" if cls.bases else ""


def _make_member_sort_key(member: griffe.Object | griffe.Alias) -> tuple[bool, str]:
    """Returns a sort key: fields keep their order, because calls depend on it; methods are sorted."""
    return member.is_function, member.name if member.is_function else ""


def _format_signature_line(name: str, thing: griffe.Object | griffe.Alias) -> str:
    if isinstance(thing, griffe.Function):
        return str(thing.signature())
    if isinstance(thing, griffe.TypeAlias):
        return f"type {name} = {thing.value}"
    if isinstance(thing, griffe.Attribute):
        annotation = f": {thing.annotation}" if thing.annotation is not None else ""
        value = str(thing.value)
        made_in_init = (
            thing.labels >= {"instance-attribute"} and "class-attribute" not in thing.labels
        )
        shown = thing.value is not None and not made_in_init and len(value) <= _LONGEST_VALUE
        return f"{name}{annotation}{f' = {value}' if shown else ''}"
    return name


def format_listing(distribution: str, blocks: Blocks) -> str:
    """Returns the text of ``public_api.txt``."""
    lines = [
        f"# The public API of {distribution}: the names that other packages, examples and "
        "documents use.",
        "# A module on this list is public; all other modules, and names that aren't listed, are "
        "private.",
        "# Written by: python -m tools.public_api --write",
    ]
    for (module, name), block in sorted(blocks.items()):
        lines += block if name else ["", f"[{module}]"]
    return "\n".join(lines) + "\n"


def parse_listing(text: str) -> Blocks:
    """Parses the text that `format_listing` returns."""
    blocks: Blocks = {}
    module, name = "", ""
    for line in text.splitlines():
        if line.startswith("["):
            module, name = line[1:-1], ""
            blocks[module, ""] = []
        elif line and not line.startswith("#"):
            if not line.startswith(" "):
                name = _name_of_line(line)
            blocks.setdefault((module, name), []).append(line)
    return blocks


def _name_of_line(line: str) -> str:
    words: Iterable[str] = line.removeprefix("class ").removeprefix("type ")
    return "".join(_find_leading_identifier(words))


def _find_leading_identifier(text: Iterable[str]) -> Iterator[str]:
    for letter in text:
        if not (letter.isalnum() or letter == "_"):
            return
        yield letter
