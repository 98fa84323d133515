"""Fenced blocks of all Markdown documents, and the category of each block."""

from __future__ import annotations

import re
import tomllib
from enum import Enum
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "tests" / "documents" / "blocks.toml"
_BLOCK = re.compile(r"^( *)```([^\s`]+)?(?: ([^\n]+))?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"[\w-]+\.[a-z]+")
_DRAWN = ("diagram", "formula")
_ROLES = {"sh": {"", "install", "server", "fails"}, "text": {"output", "end", "like"}}


class Category(Enum):
    """Kind of test of a block.

    Attributes:
        DRAWING: a picture, which nothing runs.
        EXAMPLE: Python code that runs in the process of a test.
        SESSION: a file, command or output of a terminal session that a test repeats.
        INSTALLATION: commands that fetch packages.
        EXCEPTION: a block that no test runs, with a reason in ``blocks.toml``.
    """

    DRAWING = "drawing"
    EXAMPLE = "example"
    SESSION = "session"
    INSTALLATION = "installation"
    EXCEPTION = "exception"


@attrs.frozen
class Block:
    """Fenced block.

    Attributes:
        page: path of the document, relative to the repository.
        line: line of the fence.
        language: first word after the fence.
        role: text after the language: a file's name, or what a terminal session does with the block.
        text: content.
    """

    page: str
    line: int
    language: str
    role: str
    text: str

    @property
    def is_file(self) -> bool:
        """Whether the block is a file that its role names."""
        return _FILE.fullmatch(self.role) is not None


@attrs.frozen
class BlockException:
    """Row of ``blocks.toml``: the block of a page that starts with a text, and why no test runs the block."""

    page: str
    starts: str
    reason: str

    def matches(self, block: Block) -> bool:
        """Whether the row is about a block."""
        return block.page == self.page and block.text.startswith(self.starts)


@attrs.frozen
class BlockTable:
    """Content of ``blocks.toml``.

    Attributes:
        exceptions: blocks that no test runs.
        tests: test file of each page whose terminal session has a separate test.
        hosts: test file of each page whose Python examples need a host.
    """

    exceptions: tuple[BlockException, ...]
    tests: dict[str, str]
    hosts: dict[str, str]


def read_table(file: Path = TABLE) -> BlockTable:
    """Reads the table of exceptions and of pages with a separate test."""
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    exceptions = tuple(BlockException(**row) for row in content["exception"])
    return BlockTable(exceptions, content["tests"], content["hosts"])


def list_pages() -> list[str]:
    """Returns the paths of all documents."""
    patterns = (
        "*.md",
        "docs/**/*.md",
        "packages/*/README.md",
        "deploy/**/*.md",
        "examples/**/*.md",
    )
    found = {page for pattern in patterns for page in ROOT.glob(pattern)}
    return sorted(page.relative_to(ROOT).as_posix() for page in found)


def read_blocks(page: str) -> list[Block]:
    """Returns the fenced blocks of a document in their order."""
    return parse_blocks(page, (ROOT / page).read_text(encoding="utf-8"))


def parse_blocks(page: str, text: str) -> list[Block]:
    """Returns the fenced blocks of a text."""
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, *_content(found))
        for found in _BLOCK.finditer(text)
    ]


def categorize_block(block: Block, table: BlockTable) -> Category | None:
    """Returns how a block is tested; None if nothing tests the block."""
    if any(row.matches(block) for row in table.exceptions):
        return Category.EXCEPTION
    if block.language == "mermaid" or block.language.startswith("{") or block.role in _DRAWN:
        return Category.DRAWING
    if (block.language, block.role) == ("python", ""):
        return Category.EXAMPLE
    if block.language == "sh" and block.role == "install":
        return Category.INSTALLATION
    roles = _ROLES.get(block.language, set())
    if block.is_file or block.role in roles or (block.role and block.page in table.tests):
        return Category.SESSION
    return None


def list_session_pages(table: BlockTable) -> list[str]:
    """Returns the pages whose terminal sessions have no separate test."""
    return [
        page
        for page in list_pages()
        if page not in table.tests
        and any(categorize_block(b, table) is Category.SESSION for b in read_blocks(page))
    ]


def _content(found: re.Match[str]) -> tuple[str, str, str]:
    indent, language, role, text = found.groups()
    dedented = re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)
    return language or "", role or "", dedented
