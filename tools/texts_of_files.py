"""Extraction of docstrings, comments, messages and names from Python files, and of text from Markdown pages."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

CODE_SPAN = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*\)")
HTML_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
LIST_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s")
LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
FILE_METHODS = frozenset({"seek", "read", "write"})
DIRECTIVE = re.compile(r"#\s*(?:noqa|type:|!|-\*-|///|fmt:|pragma)")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class ReaderText:
    """One text from a file, such as a docstring or a comment.

    Attributes:
        line: Number of its first line in the file.
        kind: docstring (first paragraph), function (the same, of a function that isn't a test), paragraph,
            comment, error, log, document, name, test or commit.
    """

    line: int
    kind: str
    text: str


def _convert_to_plain_text(text: str) -> str:
    """Returns the text on one line, with `X` in place of each code span."""
    return re.sub(r"\s+", " ", CODE_SPAN.sub("X", text)).strip()


def _iterate_paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yields the offset in lines and the text of each paragraph, list item and table cell."""
    begin, lines = 0, list[str]()
    for number, line in enumerate([*text.splitlines(), ""]):
        row = line.lstrip().startswith("|")
        if lines and (row or not line.strip() or LIST_ITEM.match(line)):
            yield begin, _convert_to_plain_text("\n".join(lines))
            lines = []
        if row:
            yield from (
                (number, _convert_to_plain_text(cell))
                for cell in line.strip().strip("|").split(" | ")
            )
        elif line.strip():
            begin = begin if lines else number
            lines.append(LIST_ITEM.sub("", line, count=1) if not lines else line)


def extract_markdown_texts(source: str) -> Iterator[ReaderText]:
    """Yields the paragraphs of a page, without code blocks, comments and addresses of links."""
    without_comments = HTML_COMMENT.sub(lambda found: "\n" * found[0].count("\n"), source)
    lines, fence = list[str](), ""
    for line in without_comments.splitlines():
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
            lines.append("")
        elif fence:
            lines.append("")
        else:
            heading = re.sub(r"^#+ (.*)$", r"\n\1\n", line)
            lines.append(LINK.sub(r"\1", line if heading == line else heading.strip() + "\n"))
    text = re.sub(r"(?m)^[|:\- ]+$", "", "\n".join(lines))
    for offset, paragraph in _iterate_paragraphs(text):
        if paragraph:
            yield ReaderText(offset + 1, "document", paragraph)


def _read_string_literal(node: ast.expr) -> str | None:
    """Returns the text of a string, with `{}` for each value in it, or None for another expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        return "".join(str(part) for part in parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _read_string_literal(node.left), _read_string_literal(node.right)
        return None if left is None and right is None else f"{left or '{}'}{right or '{}'}"
    return None


def _read_first_literals(values: Iterable[ast.expr], kind: str) -> Iterator[ReaderText]:
    for value in values:
        text = _read_string_literal(value)
        if text is not None and (" " in text or not text):
            yield ReaderText(value.lineno, kind, re.sub(r"\s+", " ", text))


def _extract_docstring_texts(node: ast.AST, *, is_test: bool) -> Iterator[ReaderText]:
    if not isinstance(node, ast.Module | ast.ClassDef | Function):
        return
    text = ast.get_docstring(node)
    if not text:
        return
    line = node.body[0].lineno
    decorators = (
        " ".join(map(ast.unparse, node.decorator_list))
        if isinstance(node, ast.ClassDef | Function)
        else ""
    )
    called = isinstance(node, Function) and not re.search(r"property|fixture|setter", decorators)
    for index, (offset, paragraph) in enumerate(_iterate_paragraphs(text)):
        first = "function" if called and not is_test else "docstring"
        yield ReaderText(line + offset, "paragraph" if index else first, paragraph)


def _name_texts(node: ast.AST, file_classes: frozenset[ast.AST]) -> Iterator[ReaderText]:
    if isinstance(node, ast.ClassDef | Function) and not node.name.startswith("__"):
        if isinstance(node, Function) and node.name.startswith("test_"):
            yield ReaderText(node.lineno, "test", node.name)
        elif not (node.name == "tell" and node in file_classes):
            yield ReaderText(node.lineno, "name", node.name)


def _find_file_class_methods(tree: ast.AST) -> frozenset[ast.AST]:
    """Returns all methods of classes that behave like files, whose `tell` has a fixed name."""
    found = set[ast.AST]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, Function)]
            if FILE_METHODS & {method.name for method in methods}:
                found.update(methods)
    return frozenset(found)


def _extract_comment_texts(source: str) -> Iterator[ReaderText]:
    """Yields comments; consecutive lines are one comment."""
    begin, last, words = 0, -1, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or DIRECTIVE.match(token.string):
            continue
        line = token.start[0]
        if words and line != last + 1:
            yield ReaderText(begin, "comment", _convert_to_plain_text(" ".join(words)))
            words = []
        begin = begin if words else line
        words.append(re.sub(r"\s*#\s*(?:noqa|type:).*$", "", token.string).lstrip("#: "))
        last = line
    if words:
        yield ReaderText(begin, "comment", _convert_to_plain_text(" ".join(words)))


def extract_python_texts(source: str, *, is_test: bool = False) -> Iterator[ReaderText]:
    """Yields docstrings, comments, texts of errors and log records, help texts, and names."""
    tree = ast.parse(source)
    file_classes = _find_file_class_methods(tree)
    for node in ast.walk(tree):
        yield from _extract_docstring_texts(node, is_test=is_test)
        yield from _name_texts(node, file_classes)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from _read_first_literals(node.exc.args, "error")
        if isinstance(node, ast.Call):
            method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            helps = [pair.value for pair in node.keywords if pair.arg == "help"]
            logged = node.args[:2] if method in LOG_METHODS else []
            yield from _read_first_literals([*logged, *helps], "log")
    yield from _extract_comment_texts(source)
