"""Tests that every code block of every document has a category, and that each listed exception matches a block."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from documents import (
    ROOT,
    BlockTable,
    Category,
    categorize_block,
    list_pages,
    list_session_pages,
    parse_blocks,
    read_blocks,
    read_table,
)

TABLE = read_table()
NO_ROWS = BlockTable((), {}, {})
_FILES = re.compile(r"(?<![\w/.-])[\w-]+\.(?:py|sh|toml)\b")


@pytest.mark.parametrize("page", list_pages())
def test_every_code_block_of_a_page_has_a_category(page: str) -> None:
    blocks = read_blocks(page)
    assert [one for one in blocks if categorize_block(one, TABLE) is None] == []
    # No block escapes the pattern.
    text = (ROOT / page).read_text(encoding="utf-8")
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(blocks)


def test_each_listed_exception_matches_one_code_block() -> None:
    for row in TABLE.exceptions:
        assert row.reason
        assert len([one for one in read_blocks(row.page) if row.matches(one)]) == 1, row


def test_tests_listed_for_pages_name_their_pages() -> None:
    for page, test in {**TABLE.tests, **TABLE.hosts}.items():
        text = (ROOT / test).read_text(encoding="utf-8")
        assert Path(page).stem in text, page


def test_pages_listed_as_containers_of_examples_contain_examples() -> None:
    with_examples = {
        page
        for page in list_pages()
        if any(categorize_block(one, TABLE) is Category.EXAMPLE for one in read_blocks(page))
    }
    assert set(TABLE.hosts) <= with_examples


def test_code_blocks_with_unknown_roles_or_languages_have_no_category() -> None:
    fences = ("", "sh later", "text", "text about", "json", "python later")
    for fence in fences:
        (block,) = parse_blocks("page.md", f"# Page\n```{fence}\nx\n```\n")
        assert categorize_block(block, NO_ROWS) is None, fence


def test_code_blocks_of_each_kind_have_the_expected_category() -> None:
    expected = {
        "sh": Category.SESSION,
        "sh server": Category.SESSION,
        "text output": Category.SESSION,
        "python words.py": Category.SESSION,
        "sh install": Category.INSTALLATION,
        "python": Category.EXAMPLE,
        "mermaid": Category.DRAWING,
        "{toctree}": Category.DRAWING,
        "text diagram": Category.DRAWING,
    }
    for fence, category in expected.items():
        (block,) = parse_blocks("page.md", f"```{fence}\nx\n```\n")
        assert categorize_block(block, NO_ROWS) is category, fence
        assert (block.line, block.text) == (1, "x\n")


@pytest.mark.parametrize("page", list_session_pages(TABLE))
def test_page_shows_files_before_commands_that_use_them(page: str) -> None:
    known = {file.name for file in (ROOT / "tests" / "documents" / "given").iterdir()}
    for block in read_blocks(page):
        if block.is_file:
            known.add(block.role)
        elif categorize_block(block, TABLE) is Category.SESSION and block.language == "sh":
            assert set(_FILES.findall(block.text)) <= known, block


def test_nox_sessions_in_documents_exist() -> None:
    named = {
        name: page
        for page in list_pages()
        for name in re.findall(r"nox (?:-R )?-s \"?([a-z_]+)", (ROOT / page).read_text("utf-8"))
    }
    sources = [ROOT / "noxfile.py", *(ROOT / "tools").glob("nox_*.py")]
    defined = {
        name
        for source in sources
        for name in re.findall(r"^def (\w+)\(session", source.read_text("utf-8"), re.MULTILINE)
    }
    assert {name: page for name, page in named.items() if name not in defined} == {}
