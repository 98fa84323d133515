"""Tests of all documents: links, pictures, indexes, the length of pages, and the site's navigation."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools import check_site, contract_page
from tools.texts_of_files import extract_markdown_texts

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MOST_WORDS = 1500
GENERATED = {
    "docs/reference/options.md",
    "docs/reference/shutdown.md",
}
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *DOCS.rglob("*.md"),
        *ROOT.glob("packages/*/README.md"),
        *ROOT.glob("examples/**/*.md"),
    ]
)
INDEXED = (
    "tutorial",
    "how-to",
    "reference",
    "explanation",
    "appendix",
    "maintainers",
    "engine",
    "adr",
)
OPTIONS = DOCS / "reference" / "options.md"
OTHER_FLAGS = {
    *(
        "--job-endpoint",
        "--job-tls-ca",
        "--job-tls-cert",
        "--job-tls-key",
        "--job-token-file",
    ),  # beam-runner-web
    # Spark, Beam, the relay, kubectl
    *("--py-files", "--deploy-mode", "--test-pipeline-options", "--tls-ca", "--from-literal"),
}
_LINK = re.compile(
    r"!?\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"|^```\{image\} (\S+)", re.M
)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def without_code(text: str) -> str:
    return re.sub(r"^```(?!\{image).*?^```$|`[^`\n]+`", "", text, flags=re.M | re.S)


def targets(page: Path) -> Iterator[str]:
    """Yields the targets of links and pictures inside the repository."""
    for found in _LINK.findall(without_code(page.read_text("utf-8"))):
        target = next(filter(None, found))
        if not re.match(r"[a-z]+:", target):
            yield target


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub and MyST make them."""
    found: set[str] = set()
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return found


def broken(page: Path) -> Iterator[str]:
    """Yields the targets that don't exist."""
    for target in targets(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_documentation_page_links_to_existing_files_and_headings(page: Path) -> None:
    assert list(broken(page)) == []


def test_link_check_finds_broken_links_and_pictures(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '# A `b` c\n[x](#a-b-c) [y](#d) [z](gone.md) <img src="gone.png"> `[c](code.md)`\n'
    )
    assert list(broken(page)) == ["#d", "gone.md", "gone.png"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_documentation_page_has_at_most_1500_words(page: Path) -> None:
    words = sum(len(text.text.split()) for text in extract_markdown_texts(page.read_text("utf-8")))
    assert words <= MOST_WORDS or name_of(page) in GENERATED


@pytest.mark.parametrize("folder", INDEXED)
def test_docs_folder_has_an_index_of_all_its_pages(folder: str) -> None:
    index = DOCS / folder / "README.md"
    listed = {(index.parent / target.partition("#")[0]).resolve() for target in targets(index)}
    pages = set((DOCS / folder).glob("*.md")) - {index, DOCS / folder / "template.md"}
    assert pages - listed == set()


def unknown_options(text: str, known: str) -> set[str]:
    """Returns the flags with dashes, the runner's pipeline options and the variables that aren't in the reference."""
    named = set(
        re.findall(
            r"(?<![\w-])--(?:beam_spark_\w+|[a-z]+-[a-z-]*[a-z])|BEAM_(?:RUNNER|SPARK)_[A-Z_]+",
            text,
        )
    )
    return named - OTHER_FLAGS - set(re.findall(r"`(--[\w-]+|BEAM_\w+)", known))


@pytest.mark.parametrize("folder", ["tutorial", "how-to", "reference", "explanation"])
def test_options_in_documents_are_in_the_reference(folder: str) -> None:
    known = OPTIONS.read_text("utf-8")
    texts = {page.name: page.read_text("utf-8") for page in (DOCS / folder).glob("*.md")}
    assert {
        name: found for name, text in texts.items() if (found := unknown_options(text, known))
    } == {}


def test_option_check_finds_unknown_options() -> None:
    text = "`--state-dir`, --stat-dir=x, --beam_spark_x, `BEAM_RUNNER_X`, --streaming, --py-files"
    found = unknown_options(text, "| `--state-dir DIR` |")
    assert found == {"--stat-dir", "--beam_spark_x", "BEAM_RUNNER_X"}


def test_site_navigation_has_every_page() -> None:
    text = (DOCS / "site" / "index.md").read_text("utf-8")
    entries = re.findall(r"^(\.\./[\w./*-]+)$", text, re.M)
    shown = {file for entry in entries for file in (DOCS / "site").glob(f"{entry}.md")}
    resolved = {file.resolve() for file in shown}
    assert {page for page in DOCS.rglob("*.md") if page.parent.name != "site"} - resolved == set()


def test_import_contracts_page_is_current() -> None:
    assert contract_page.PAGE.read_text("utf-8") == contract_page.render_page(), (
        contract_page.COMMAND
    )


def test_site_check_finds_missing_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_site.main(tmp_path) == 1
    page = tmp_path / "a.html"
    page.write_text(
        '<a href="b%20c.html#x">b</a><a href="https://example.com/d">d</a><img src="e.png">'
    )
    (tmp_path / "b c.html").write_text("<a href='#y'>y</a>")
    assert check_site.main(tmp_path) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "a.html: e.png"
    (tmp_path / "e.png").touch()
    assert check_site.main(tmp_path) == 0
