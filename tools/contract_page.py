"""Writes docs/maintainers/import-contracts.md from .importlinter.

Run ``python tools/contract_page.py --write``. Without ``--write``, a page that differs from the
contracts is an error.
"""

from __future__ import annotations

import configparser
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "maintainers" / "import-contracts.md"
COMMAND = "python tools/contract_page.py --write"
_ABOUT = f"""\
# Import contracts

The nox session `layers` checks the import contracts on this page with import-linter. `{COMMAND}` writes this page from `.importlinter`.

## Allowed imports

A package can import only the modules in this table. The package's `pyproject.toml` must declare each third-party module. *Pure* means the modules of the standard library without I/O and clocks that `.importlinter` lists.

| package | standard library | other modules |
|---|---|---|
"""
_LAYERS = """
## Layers

A package can import only packages in lower layers. Packages on the same line don't import each other.

```text diagram
{layers}
```

`.importlinter` also lists the layers of modules inside these packages: {packages}.
"""
_FORBIDDEN = """\
## Forbidden imports

| contract | importing modules | forbidden modules |
|---|---|---|
"""


def _split_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _code(text: str) -> str:
    return ", ".join(f"`{item}`" for item in _split_lines(text))


def _format_only_contract(contract: configparser.SectionProxy) -> str:
    """Returns the table row of a contract that lists the allowed imports of a package."""
    library = _split_lines(contract.get("standard_library", ""))
    words = "complete" if library == ["*"] else "pure" if library else "none"
    modules = _code(contract.get("third_party", "")) or "none"
    return f"| `{contract['package']}` | {words} | {modules} |"


def _format_forbidden_contract(contract: configparser.SectionProxy) -> str:
    """Returns the table row of a contract that forbids imports."""
    modules = (_code(contract[key]) for key in ("source_modules", "forbidden_modules"))
    return f"| {contract['name']} | " + " | ".join(modules) + " |"


def render_page() -> str:
    """Returns the text of the page that the contracts produce."""
    parser = configparser.ConfigParser()
    parser.read_string((ROOT / ".importlinter").read_text("utf-8"))
    contracts = [parser[name] for name in parser.sections() if ":contract:" in name]
    kinds: dict[str, list[configparser.SectionProxy]] = {"only": [], "layers": [], "forbidden": []}
    for contract in contracts:
        kinds[contract["type"]].append(contract)
    packages, *inner = kinds["layers"]
    lines = [
        *(_format_only_contract(contract) for contract in kinds["only"]),
        _LAYERS.format(
            layers="\n".join(_split_lines(packages["layers"])),
            packages=", ".join(f"`{contract['containers'].strip()}`" for contract in inner),
        ),
        _FORBIDDEN.rstrip("\n"),
        *(_format_forbidden_contract(contract) for contract in kinds["forbidden"]),
    ]
    return _ABOUT + "\n".join(lines).rstrip() + "\n"


def main(words: list[str]) -> int:
    """Writes the page of contracts, or compares it with the contracts; returns the exit code."""
    if "--write" in words:
        PAGE.write_text(render_page(), encoding="utf-8")
        return 0
    current = PAGE.exists() and PAGE.read_text("utf-8") == render_page()
    print("The page is current." if current else f"The page isn't current: run `{COMMAND}`.")
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
