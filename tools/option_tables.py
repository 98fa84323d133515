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


def _table_cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def _option_rows(parser: argparse.ArgumentParser, *, skipped: frozenset[str]) -> Iterator[str]:
    """Yields a table row for each option of a parser, except the options to skip."""
    formatter = parser._get_formatter()
    for action in parser._actions:
        name = action.option_strings[-1] if action.option_strings else ""
        if (name or action.metavar) in skipped or action.help == argparse.SUPPRESS:
            continue
        value = formatter._format_args(action, str(action.metavar or action.dest.upper()))
        shown = " ".join(filter(None, (name, value)))
        yield f"| `{_table_cell(shown)}` | {_table_cell(formatter._expand_help(action) if action.help else '')} |"


def _option_names(parser: argparse.ArgumentParser) -> frozenset[str]:
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
    common = _option_names(spark) & _option_names(plain)
    web = argparse.ArgumentParser(add_help=False)
    for extension in find_extensions():
        extension.add_flags(web)
    pipeline = argparse.ArgumentParser(add_help=False)
    BeamSparkOptions._add_argparse_args(pipeline)
    shared = describe_command.COMMAND.parser(spark.prog)
    tables = (
        ("Flags of both servers", spark, _option_names(spark) - common | {"--help"}),
        ("Flags of `beam-spark-jobserver` only", spark, common),
        ("Flags of `beam-runner-jobserver` only", plain, common),
        ("Flags of the web interface", web, frozenset[str]()),
        ("Options of a pipeline", pipeline, frozenset[str]()),
        ("Arguments of all commands for jobs", shared, frozenset({"--help"})),
        *(
            (
                f"Arguments of the command `{one.name}`",
                one.parser(spark.prog),
                _option_names(shared),
            )
            for one in commands.ALL
            if one.name not in ("jobs", "describe")
        ),
    )
    lines: list[str] = []
    for title, parser, skipped in tables:
        lines += [f"## {title}", "", *_HEAD, *_option_rows(parser, skipped=skipped), ""]
    lines += ["## Environment variables", "", "| variable | meaning |", "|---|---|"]
    lines += [
        f"| `{name}` | {_table_cell(text)} |"
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
