"""Writes docs/reference/options.md from the code.

Run ``python tools/option_tables.py --write``. Without ``--write``, a page that differs from the
code is an error.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from beam_runner_server.extensions import find_extensions
from beam_runner_server.flags import _make_parser
from beam_runner_server.job_commands import commands, describe_command
from beam_runner_server.plain import PlainProgram
from beam_spark_executor import BeamSparkOptions
from beam_spark_executor.program import SparkProgram

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "options.md"
VARIABLE = re.compile(r"BEAM_(RUNNER|SPARK)_\w+")
COMMAND = "python tools/option_tables.py --write"
_ABOUT = f"""\
# Options

All flags of the servers, all options of a pipeline, and all environment variables. `{COMMAND}` writes this page from the code, and CI checks it.

"""
_HEAD = ("| option | meaning |", "|---|---|")


def _format_table_cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def _format_option_rows(
    parser: argparse.ArgumentParser, *, skipped: frozenset[str]
) -> Iterator[str]:
    """Yields a table row for each option of a parser, except the options to skip."""
    formatter = parser._get_formatter()
    for action in parser._actions:
        name = action.option_strings[-1] if action.option_strings else ""
        if (name or action.metavar) in skipped or action.help == argparse.SUPPRESS:
            continue
        value = formatter._format_args(action, str(action.metavar or action.dest.upper()))
        shown = " ".join(filter(None, (name, value)))
        yield f"| `{_format_table_cell(shown)}` | {_format_table_cell(formatter._expand_help(action) if action.help else '')} |"


def _format_option_names(parser: argparse.ArgumentParser) -> frozenset[str]:
    return frozenset(
        action.option_strings[-1] for action in parser._actions if action.option_strings
    )


def find_environment_variables(root: Path) -> dict[str, str]:
    """Returns the environment variables that the sources name in constants, with the docstring of each constant.

    Raises:
        ValueError: If a constant has no docstring.
    """
    found: dict[str, str] = {}
    for file in sorted(root.glob("packages/*/src/**/*.py")):
        body = ast.parse(file.read_text("utf-8")).body
        for node, after in zip(body, [*body[1:], None], strict=True):
            value = node.value if isinstance(node, ast.Assign) else None
            name = str(value.value) if isinstance(value, ast.Constant) else ""
            if not VARIABLE.fullmatch(name):
                continue
            text = after.value if isinstance(after, ast.Expr) else None
            if not isinstance(text, ast.Constant):
                raise ValueError(f"{file}:{node.lineno}: {name} has no docstring below it")
            found[name] = str(text.value).replace("``", "`")
    return dict(sorted(found.items()))


def render_page() -> str:
    """Returns the text of the page that the code's options produce."""
    spark, plain = _make_parser(SparkProgram()), _make_parser(PlainProgram())
    common = _format_option_names(spark) & _format_option_names(plain)
    web = argparse.ArgumentParser(add_help=False)
    for extension in find_extensions():
        extension.add_flags(web)
    pipeline = argparse.ArgumentParser(add_help=False)
    BeamSparkOptions._add_argparse_args(pipeline)
    shared = describe_command.COMMAND.create_parser(spark.prog)
    tables = (
        ("Flags of both servers", spark, _format_option_names(spark) - common | {"--help"}),
        ("Flags of `beam-spark-jobserver` only", spark, common),
        ("Flags of `beam-runner-jobserver` only", plain, common),
        ("Flags of the web interface", web, frozenset[str]()),
        ("Options of a pipeline", pipeline, frozenset[str]()),
        ("Arguments of all commands for jobs", shared, frozenset({"--help"})),
    )
    lines: list[str] = []
    for title, parser, skipped in tables:
        if rows := list(_format_option_rows(parser, skipped=skipped)):
            lines += [f"## {title}", "", *_HEAD, *rows, ""]
    lines += ["## Arguments of single commands for jobs", "", *_HEAD]
    for command in commands.ALL:
        if command.name not in ("jobs", "describe"):
            parser = command.create_parser(spark.prog)
            for row in _format_option_rows(parser, skipped=_format_option_names(shared) | {"JOB"}):
                lines.append(row.replace("` | ", f"` of `{command.name}` | ", 1))
    lines.append("")
    lines += ["## Environment variables", "", "| variable | meaning |", "|---|---|"]
    lines += [
        f"| `{name}` | {_format_table_cell(text)} |"
        for name, text in find_environment_variables(ROOT).items()
    ]
    return _ABOUT + "\n".join(lines) + "\n"


def main(words: list[str]) -> int:
    """Writes the page of options, or compares it with the code; returns the exit code."""
    new = render_page()
    if "--write" in words:
        PAGE.write_text(new, encoding="utf-8")
        return 0
    old = PAGE.read_text("utf-8") if PAGE.exists() else ""
    print("\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0)))
    print("The page is current." if old == new else f"The page isn't current: run `{COMMAND}`.")
    return 0 if old == new else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
