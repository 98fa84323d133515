"""Tests of the linter of words: which texts it reads, which rules apply, and how numbers fall."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools import check_words
from tools.check_words import (
    ALLOWED,
    RULES,
    AreaFindings,
    WordRule,
    collect_area_findings,
    main,
    parse_allowed_counts,
    parse_rules,
)
from tools.texts_of_files import extract_markdown_texts, extract_python_texts

SOURCE = '''
"""The module."""

class Reader:
    """A reader.

    Its second paragraph.
    """

    def tell(self) -> int:
        """Returns the offset of ``self``."""
        # The first line
        # and the second one.
        raise ValueError(f"{self} is closed: open the file " + "again")

    def read(self) -> None:
        log.warning("can't read %s", self)  # noqa: X1

def tell(): ...

def test_kafka_reader_at_the_end_returns_no_records():
    """Explains the test."""
'''


def texts(kind: str) -> list[str]:
    return [text.text for text in extract_python_texts(SOURCE) if text.kind == kind]


def rules_for(kind: str, text: str) -> set[str]:
    rules = parse_rules(RULES.read_text("utf-8"))
    return {rule.name for rule in rules if kind in rule.kinds and rule.pattern.search(text)}


def test_words_linter_reads_each_kind_of_text_in_python_sources() -> None:
    assert texts("docstring") == ["The module.", "A reader."]
    assert texts("function") == ["Explains the test.", "Returns the offset of X."]
    assert texts("paragraph") == ["Its second paragraph."]
    assert texts("comment") == ["The first line and the second one."]
    assert texts("error") == ["{} is closed: open the file again"]
    assert texts("log") == ["can't read %s"]
    assert texts("test") == ["test_kafka_reader_at_the_end_returns_no_records"]


def test_words_linter_accepts_the_method_tell_of_a_file_class() -> None:
    assert texts("name") == ["Reader", "tell", "read"]


def test_words_linter_reads_paragraphs_items_and_cells_of_markdown_without_code() -> None:
    page = "# Title\nA line\nof [text](told.md).\n\n- One `told`\n  item\n- two 1. * x\n\n| a | b |\n|---|---|\n| c | d |\n\n```sh\ntold\n```\nEnd <!-- told -->\n"
    found = [(text.line, text.text) for text in extract_markdown_texts(page)]
    assert [text for _, text in found] == [
        "Title",
        "A line of text.",
        "One X item",
        "two 1. * x",
        "a",
        "b",
        "c",
        "d",
        "End",
    ]


@pytest.mark.parametrize(
    ("kind", "text", "rule"),
    [
        ("document", "Of a stream Beam records the sources.", "fronted-of"),
        ("comment", "a lock that nobody holds", "nobody"),
        ("error", "it is missing", "error-no-subject"),
        ("name", "tell", "name-private-verb"),
        ("test", "test_one_that_waits_is_closed", "test-no-subject"),
        ("function", "How long the job has run.", "function-verb"),
        ("commit", "Docs: " + "x" * 80, "subject-long"),
        ("commit", "Docs: move a page", "subject-topic"),
        ("commit", "Moves a page", "subject-not-imperative"),
    ],
)
def test_words_linter_rule_finds_its_pattern(kind: str, text: str, rule: str) -> None:
    assert rule in rules_for(kind, text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("document", "Spark restarts a lane if its executor exits."),
        ("function", "Returns the elapsed time in seconds."),
        ("function", "Whether the job has finished."),
        ("name", "report_progress"),
        ("test", "test_standby_task_with_assigned_lane_gets_no_second_lane"),
        ("error", "Can't read {}: {}"),
        ("commit", "Add a linter of the words that people read"),
        ("commit", "Process the timers of a drained job"),
    ],
)
def test_words_linter_accepts_plain_text(kind: str, text: str) -> None:
    assert rules_for(kind, text) == set()


def git(root: Path, *words: str) -> None:
    author = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(("git", "-C", str(root), *author, *words), check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "README.md").write_text("It is told.\n")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "Old: it was told")
    (tmp_path / "tools/check_words.py").write_text("")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "Added the linter")
    return tmp_path


def test_words_linter_first_write_records_the_current_numbers(project: Path) -> None:
    assert main([], project) == 1
    assert main(["--write"], project) == 0
    assert parse_allowed_counts((project / ALLOWED).read_text()) == {"documents": (1, 0)}


def test_words_linter_with_more_findings_than_recorded_fails(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--write"], project)
    (project / "SECURITY.md").write_text("Nobody is told.\n")
    assert main(["--write"], project) == 1
    assert "SECURITY.md:1: nobody: Nobody" in capsys.readouterr().out
    assert parse_allowed_counts((project / ALLOWED).read_text()) == {"documents": (1, 0)}


def test_words_linter_with_fewer_findings_passes_and_lowers_the_number(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--write"], project)
    (project / "README.md").write_text("The server logs the error.\n")
    assert main([], project) == 0
    assert "--write" in capsys.readouterr().out
    main(["--write"], project)
    assert parse_allowed_counts((project / ALLOWED).read_text()) == {}


def test_words_linter_accepts_no_finding_in_an_area_without_a_record(project: Path) -> None:
    main(["--write"], project)
    (project / "docs/adr").mkdir(parents=True)
    (project / "docs/adr/0001.md").write_text("Nobody reads that.\n")
    assert main(["--write"], project) == 1


def test_words_linter_checks_commit_subjects_after_its_introduction(project: Path) -> None:
    main(["--write"], project)
    assert main([], project) == 0
    git(project, "commit", "-q", "--allow-empty", "-m", "Linter: check")
    areas = collect_area_findings(project, parse_rules(RULES.read_text("utf-8")))
    assert [len(areas["commits"].findings[mode]) for mode in ("fail", "count")] == [1, 0]
    assert main([], project) == 1


def test_words_linter_reports_findings_per_thousand_words() -> None:
    area = AreaFindings(words=500, findings={"fail": ["a"], "count": ["b"]})
    assert (
        list(check_words.describe_area_counts({"documents": area}))[-1]
        == "all: 2 findings in 500 words, 4.0 per 1,000"
    )


def test_words_linter_rules_are_unique_and_complete() -> None:
    rules = parse_rules(RULES.read_text("utf-8"))
    assert len({rule.name for rule in rules}) == len(rules) > 20
    assert all(isinstance(rule, WordRule) and rule.mode in {"fail", "count"} for rule in rules)
