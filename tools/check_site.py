"""Checks that every link and picture of the built site leads to a file: ``python tools/check_site.py FOLDER``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ADDRESSES = frozenset({"href", "src", "srcset"})


class _AddressCollector(HTMLParser):
    """Collector of the addresses in one page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value for name, value in attrs if name in ADDRESSES and value]


def find_broken_addresses(page: Path) -> Iterator[str]:
    """Yields the local addresses of a page that lead to no file."""
    parser = _AddressCollector()
    parser.feed(page.read_text("utf-8"))
    for address in parser.addresses:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc or not parts.path:
            continue
        if not (page.parent / unquote(parts.path)).exists():
            yield address


def main(folder: Path) -> int:
    """Prints the broken addresses; returns the exit code."""
    pages = sorted(folder.rglob("*.html"))
    found = [
        f"{page.relative_to(folder)}: {address}"
        for page in pages
        for address in find_broken_addresses(page)
    ]
    if not pages:
        found = [f"{folder} has no pages"]
    print("\n".join(found) or f"All links and pictures of {len(pages)} pages lead to files.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
