"""Updates of the tables in docs/reference/versions.md from pytest results. Only rows with new results change."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

from tools.nox_support import RESULTS, ROOT

OUTCOMES = RESULTS / "versions"
PAGE = ROOT / "docs" / "reference" / "versions.md"
NOT_RUN = "did not run"
_CLIENT = re.compile(
    r"test_(python|go)_client_completes_or_is_refused_by_version"
    r"\[([\d.]+)-(?:([\d.]+)-)?(\w+)\]"
)
_ENVIRONMENTS = ("embedded", "LOOPBACK", "PROCESS", "EXTERNAL")


def format_outcome_cell(results: Path) -> str:
    """Returns the table cell of a JUnit file: ``12``, ``11 of 12``, or a note that no test ran."""
    if not results.exists():
        return NOT_RUN
    cases = list(ElementTree.parse(results).iter("testcase"))
    ran = [case for case in cases if case.find("skipped") is None]
    bad = [case for case in ran if _has_failed(case)]
    if not ran:
        return NOT_RUN
    return str(len(ran)) if not bad else f"**{len(ran) - len(bad)} of {len(ran)}**"


def make_client_rows(results: Path) -> Iterator[tuple[str, ...]]:
    """Returns a row for each executed client: its SDK, its Python, and the outcome in each environment."""
    if not results.exists():
        return
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for case in ElementTree.parse(results).iter("testcase"):
        name = _CLIENT.fullmatch(case.attrib.get("name", ""))
        if name and case.find("skipped") is None:
            sdk = f"{name[1].capitalize()} {name[2]}"
            good = "refused" if name[4] == _ENVIRONMENTS[0] else "right"
            rows.setdefault((sdk, name[3] or ""), {})[name[4]] = (
                "**fails**" if _has_failed(case) else good
            )
    for key, found in rows.items():
        yield *key, *(found.get(environment, NOT_RUN) for environment in _ENVIRONMENTS)


def replace_row(page: Path, mark: str, row: tuple[str, ...], keys: int) -> None:
    """Replaces the row with the same first cells in a table between a page's markers, or inserts the
    row in order.

    Cells without a new result keep their text.

    Args:
        page: Markdown page with lines ``<!-- table: mark -->`` and ``<!-- end -->``.
        mark: name of the table.
        row: cells of the row.
        keys: number of first cells that identify a row.
    """
    text = page.read_text(encoding="utf-8")
    begin = text.index(f"<!-- table: {mark} -->\n")
    end = text.index("<!-- end -->", begin)
    head, heads, line, *rows = text[begin:end].splitlines(keepends=True)
    known = {_make_row_key(_split_cells(one)[:keys]): one for one in rows}
    before = _split_cells(known.get(_make_row_key(row[:keys]), "")) + (NOT_RUN,) * len(row)
    cells = (old if new == NOT_RUN else new for new, old in zip(row, before, strict=False))
    known[_make_row_key(row[:keys])] = f"| {' | '.join(cells)} |\n"
    table = "".join(
        (head, heads, line, *(known[key] for key in sorted(known, key=_make_numeric_sort_key)))
    )
    page.write_text(text[:begin] + table + text[end:], encoding="utf-8")


def _has_failed(case: ElementTree.Element) -> bool:
    return any(case.find(word) is not None for word in ("failure", "error"))


def _split_cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|"))


def _make_row_key(cells: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the key of a row without patch versions, so that the next patch replaces the previous patch."""
    return tuple(re.sub(r"(\d+\.\d+)\.\d+", r"\1", cell) for cell in cells)


def _make_numeric_sort_key(key: tuple[str, ...]) -> list[list[tuple[int, str]]]:
    return [list(_split_digits_and_text(text)) for text in key]


def _split_digits_and_text(text: str) -> Iterator[tuple[int, str]]:
    for digits, other in re.findall(r"(\d+)|(\D+)", text):
        yield (int(digits), "") if digits else (-1, other)
