"""Checks all texts and names of the project for discouraged words in ``tools/words.tsv``: ``python
tools/check_words.py``.

The tool reads docstrings, comments, errors, log texts, names, names of tests, documents, and
subjects of commits since this tool exists. ``tools/words_allowed.tsv`` contains the maximum number
of findings in each area, for `fail` rules and for `count` rules. For other areas, the maximum is 0.

``--list AREA`` prints all findings of an area. ``--write`` records the numbers that have fallen.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).parents[1])
)  # Makes `tools` importable if the file runs as a script

from tools.texts_of_files import ReaderText, extract_markdown_texts, extract_python_texts

ROOT = Path(__file__).parents[1]
RULES = Path(__file__).with_name("words.tsv")
ALLOWED = "tools/words_allowed.tsv"
ADDED = "tools/check_words.py"
HEADER = "# area<TAB>most findings of `fail` rules<TAB>most findings of `count` rules: the numbers only fall\n"
PROSE = frozenset({"docstring", "function", "paragraph", "comment", "error", "log", "document"})
SCOPES: Mapping[str, frozenset[str]] = {
    "prose": PROSE,
    "doc": frozenset({"docstring", "function"}),
    **{kind: frozenset({kind}) for kind in ("function", "error", "name", "test", "commit")},
}


@dataclass(frozen=True)
class WordRule:
    """One pattern to avoid.

    Attributes:
        mode: `fail` if the pattern is always wrong, `count` if some findings can be right.
        kinds: Kinds of texts that the rule applies to.
    """

    name: str
    mode: str
    kinds: frozenset[str]
    pattern: re.Pattern[str]


@dataclass
class AreaFindings:
    """Findings in one part of the project, by the mode of the rule, and the number of words read."""

    words: int = 0
    findings: dict[str, list[str]] = field(default_factory=lambda: {"fail": [], "count": []})

    def count_findings(self) -> tuple[int, int]:
        """Returns the number of findings of `fail` rules and of `count` rules."""
        return len(self.findings["fail"]), len(self.findings["count"])


def parse_rules(text: str) -> list[WordRule]:
    """Parses rules: name, mode, scope and regular expression, separated by tabs."""
    rows = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return [
        WordRule(name, mode, SCOPES[scope], re.compile(regex)) for name, mode, scope, regex in rows
    ]


def parse_allowed_counts(text: str) -> dict[str, tuple[int, int]]:
    """Parses the recorded numbers: area, findings of `fail` rules, findings of `count` rules."""
    rows = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return {area: (int(fail), int(count)) for area, fail, count in rows}


def get_area(path: str) -> str:
    """Returns the area of a file: a package's source, tests or documents, or a folder of the project."""
    parts = path.split("/")
    if parts[0] == "packages":
        kind = "documents" if path.endswith(".md") else "tests" if "tests" in parts else "source"
        return f"{parts[1]} {kind}"
    if path.startswith("docs/adr/"):
        return "decisions"
    return "documents" if path.endswith(".md") else "tests" if parts[0] == "tests" else "tools"


def find_broken_rules(
    where: str, text: ReaderText, rules: list[WordRule]
) -> Iterator[tuple[str, str]]:
    """Yields the mode and the description of each rule that a text breaks."""
    for rule in rules:
        found = rule.pattern.search(text.text) if text.kind in rule.kinds else None
        if found:
            begin = max(0, found.start() - 30)
            yield rule.mode, f"{where}: {rule.name}: {text.text[begin : found.end() + 50]}"


def _run_git(root: Path, *words: str) -> list[str]:
    done = subprocess.run(
        ("git", "-C", str(root), *words), capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines() if done.returncode == 0 else []


def iterate_file_texts(root: Path) -> Iterator[tuple[str, ReaderText]]:
    """Yields the texts in all files of the repository, including new files that Git doesn't ignore,
    with the path of the file.
    """
    for path in sorted(set(_run_git(root, "ls-files", "-co", "--exclude-standard"))):
        file = root / path
        if not file.is_file() or path.endswith("_pb2.py"):
            continue
        if path.endswith(".md"):
            yield from ((path, text) for text in extract_markdown_texts(file.read_text("utf-8")))
        elif path.endswith(".py"):
            is_test = "tests" in Path(path).parts
            source = file.read_text("utf-8")
            yield from ((path, text) for text in extract_python_texts(source, is_test=is_test))


def iterate_commit_subjects(root: Path) -> Iterator[tuple[str, ReaderText]]:
    """Yields the subjects of all commits since the commit that added this tool."""
    added = _run_git(root, "log", "--diff-filter=A", "--format=%H", "--", ADDED)
    if added:
        between = ("--ancestry-path", "--no-merges", f"{added[-1]}..HEAD")
        for line in _run_git(root, "log", "--format=%h %s", *between):
            commit, _, subject = line.partition(" ")
            yield f"commit {commit}", ReaderText(0, "commit", subject)


def collect_area_findings(root: Path, rules: list[WordRule]) -> dict[str, AreaFindings]:
    """Returns the findings of each area of the project."""
    areas: dict[str, AreaFindings] = defaultdict(AreaFindings)
    for path, text in iterate_file_texts(root):
        area = areas[get_area(path)]
        area.words += len(text.text.split())
        for mode, finding in find_broken_rules(f"{path}:{text.line}", text, rules):
            area.findings[mode].append(finding)
    for commit, text in iterate_commit_subjects(root):
        areas["commits"].words += len(text.text.split())
        for mode, finding in find_broken_rules(commit, text, rules):
            areas["commits"].findings[mode].append(finding)
    return dict(areas)


def describe_excesses(
    areas: Mapping[str, AreaFindings], allowed: Mapping[str, tuple[int, int]]
) -> Iterator[str]:
    """Yields a line for each area and mode with more findings than allowed, and then the findings."""
    for name, area in sorted(areas.items()):
        for (mode, found), most in zip(
            area.findings.items(), allowed.get(name, (0, 0)), strict=True
        ):
            if len(found) > most:
                yield f"{name}: {len(found)} findings of `{mode}` rules, at most {most}:"
                yield from (f"  {finding}" for finding in found)


def lower_allowed_counts(
    areas: Mapping[str, AreaFindings], allowed: Mapping[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """Returns the maximum numbers to record: for each area, the lower of the current and the recorded number."""
    new = {}
    for name, area in sorted(areas.items()):
        now = area.count_findings()
        then = allowed.get(name, (0, 0) if allowed else now)
        new[name] = (min(now[0], then[0]), min(now[1], then[1]))
    return {name: counts for name, counts in new.items() if any(counts)}


def describe_area_counts(areas: Mapping[str, AreaFindings]) -> Iterator[str]:
    """Yields the number of findings of each area and of all, and their share of 1,000 words."""
    words = findings_of_all = 0
    for name, area in sorted(areas.items()):
        count = sum(area.count_findings())
        words, findings_of_all = words + area.words, findings_of_all + count
        yield f"{name}: {count} findings in {area.words} words"
    yield f"all: {findings_of_all} findings in {words} words, {1000 * findings_of_all / max(words, 1):.1f} per 1,000"


def main(words: list[str], root: Path = ROOT) -> int:
    """Checks the words of the project; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", metavar="AREA", help="print all findings of this area")
    parser.add_argument("--write", action="store_true", help="record the numbers that have fallen")
    options = parser.parse_args(words)
    areas = collect_area_findings(root, parse_rules(RULES.read_text("utf-8")))
    file = root / ALLOWED
    allowed = parse_allowed_counts(file.read_text("utf-8")) if file.exists() else {}
    if options.list:
        area = areas.get(options.list, AreaFindings())
        print("\n".join([*area.findings["fail"], *area.findings["count"]]))
        return 0
    new = lower_allowed_counts(areas, allowed)
    if options.write:
        rows = (f"{name}\t{fail}\t{count}\n" for name, (fail, count) in new.items())
        file.write_text(HEADER + "".join(rows), encoding="utf-8")
    print("\n".join(describe_area_counts(areas)))
    if not options.write and new != allowed:
        print(f"Some numbers have fallen: record them with `python {ADDED} --write`.")
    broken = list(describe_excesses(areas, new if options.write else allowed))
    print("\n".join(broken) or "No area has more findings than allowed.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
