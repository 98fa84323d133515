"""Command ``quarantine``: lists the elements that streams moved to a quarantine, because they always fail."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from beam_runner_server.job_commands.connecting import CommandParser, print_json, print_lines

if TYPE_CHECKING:
    from beam_runner_driver.quarantine.quarantine_summary import QuarantineSummary


@attrs.frozen
class QuarantineCommand:
    """Command ``quarantine``. The command reads quarantine files (files of failing elements)
    directly, without a job server.

    Attributes:
        name: the first word of the command line.
        description: the description for ``--help``.
    """

    name: str = "quarantine"
    description: str = (
        "Lists the elements in a folder or store of --beam_spark_quarantine, by job and step."
    )

    def run(self, program: str, arguments: Sequence[str]) -> int:
        """Runs the command; returns 0, or 1 if the quarantine can't be read.

        Args:
            program: the name of the program, for usage texts and errors.
            arguments: the command line after the name of the command.

        Raises:
            SystemExit: with code 2 for a wrong command line.
        """
        found = self.create_parser(program).parse_args(arguments)
        from beam_runner_driver.quarantine.quarantine_summary import summarize_quarantine
        from beam_runner_runtime.logs import escape_unprintable
        from beam_runner_storage.errors import StorageError
        from beam_runner_storage.stores.spec import parse_data_dir

        try:
            summaries = summarize_quarantine(parse_data_dir(found.url))
        except (StorageError, ValueError) as error:
            print(f"{program} {self.name}: {escape_unprintable(str(error))}", file=sys.stderr)
            return 1
        if found.json:
            print_json([attrs.asdict(one) for one in summaries])
        elif not summaries:
            print(f"{found.url} contains no quarantined elements")
        else:
            print_lines(_format_table(summaries))
        return 0

    def create_parser(self, program: str) -> argparse.ArgumentParser:
        """Returns the parser of the command line."""
        parser = CommandParser(
            prog=f"{program} {self.name}", description=self.description, allow_abbrev=False
        )
        parser.add_argument("url", metavar="URL", help="folder, or URL of a store")
        parser.add_argument("--json", action="store_true", help="print JSON")
        return parser


def _format_table(summaries: Sequence[QuarantineSummary]) -> Iterator[str]:
    from beam_runner_server.job_commands.tables import format_table

    rows = [
        (
            one.job_id,
            one.step,
            one.kind,
            str(one.count),
            _format_event_time(one.first_ms),
            _format_event_time(one.last_ms),
            one.error,
        )
        for one in summaries
    ]
    head = ("JOB", "STEP", "KIND", "COUNT", "FIRST (UTC)", "LAST (UTC)", "ERROR")
    return format_table(head, rows, flexible=6, numbers=frozenset({3}))


def _format_event_time(time: int) -> str:
    """Returns an event time (ms) as a date in UTC, or as a number if no calendar has this date."""
    from beam_runner_jobservices.figures.texts import format_utc_time

    try:
        return format_utc_time(time / 1000)
    except (ValueError, OverflowError, OSError):
        return str(time)


COMMAND = QuarantineCommand()
