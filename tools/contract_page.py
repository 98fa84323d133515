"""Writes docs/maintainers/import-contracts.md from .importlinter: ``python tools/contract_page.py --write``; without it, checks the page."""

from __future__ import annotations

import configparser
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "maintainers" / "import-contracts.md"
COMMAND = "python tools/contract_page.py --write"
_ABOUT = f"""\
# Import contracts

`nox -s layers` checks these contracts with import-linter. `{COMMAND}` writes this page from `.importlinter`.

A contract of type `layers` lets a module import only layers below its own; modules on one line don't import each other. A contract of type `only` lists
everything that a package may import, and each import must also be declared in the package's `pyproject.toml`. `*` is the complete standard library.

"""


def _items(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _rows(contract: configparser.SectionProxy) -> Iterator[str]:
    """Yields the lines of the page about one contract."""
    yield f"## {contract['name']}"
    yield ""
    kind = contract["type"]
    about = contract.get("package") or ", ".join(_items(contract.get("containers", "")))
    yield f"Type `{kind}`" + (f", `{about}`" if about else "") + "."
    yield ""
    for key in (
        "standard_library",
        "third_party",
        "source_modules",
        "forbidden_modules",
        "modules",
    ):
        if key in contract:
            yield f"- {key.replace('_', ' ')}: {', '.join(f'`{item}`' for item in _items(contract[key]))}"
    if "layers" in contract:
        yield "```"
        yield from _items(contract["layers"])
        yield "```"
    yield ""


def page() -> str:
    """Returns the page as it must be."""
    parser = configparser.ConfigParser()
    parser.read_string((ROOT / ".importlinter").read_text("utf-8"))
    contracts = [parser[name] for name in parser.sections() if ":contract:" in name]
    return (
        _ABOUT + "\n".join(row for contract in contracts for row in _rows(contract))
    ).rstrip() + "\n"


def main(words: list[str]) -> int:
    """Writes or checks the page; returns the exit code."""
    if "--write" in words:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    current = PAGE.exists() and PAGE.read_text("utf-8") == page()
    print("The page is current." if current else f"The page isn't current: run `{COMMAND}`.")
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
