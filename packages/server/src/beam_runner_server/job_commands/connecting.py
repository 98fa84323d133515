"""Command-line flags of all commands for jobs, their connection to the server, and their error messages."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import attrs

if TYPE_CHECKING:
    from beam_runner_jobservices.client import JobClient
    from beam_runner_jobservices.errors import JobApiError

CALL_SECONDS = 8.0
"""The limit of a call in seconds, so that a command fails within 10 s if the server doesn't respond."""
_INTERRUPTED = 130


class CommandFailed(Exception):
    """Raised if a command fails. The message is the reason."""


@attrs.frozen
class Command:
    """A command for jobs.

    Attributes:
        name: the first word of the command line.
        act: function that executes the command with the client and the parsed flags, and returns
            the exit code.
        add_flags: function that adds the flags and arguments that only this command has.
    """

    name: str
    description: str
    act: Callable[[JobClient, argparse.Namespace], int]
    add_flags: Callable[[argparse.ArgumentParser], None] = lambda parser: None

    def run(self, program: str, arguments: Sequence[str]) -> int:
        """Runs the command; returns 0, 1 if the command fails, or 130 after Ctrl-C.

        Args:
            program: the name of the program, for usage texts and errors.
            arguments: the command line after the name of the command.

        Raises:
            SystemExit: with code 2 for a wrong command line.
        """
        found = self.create_parser(program).parse_args(arguments)
        # Import here: the import of Beam takes seconds, and a wrong flag must be reported without this delay.
        from beam_runner_runtime.logs import suppress_import_warnings

        with suppress_import_warnings():
            from beam_runner_jobservices.client import JobClient
            from beam_runner_jobservices.credential_flags import read_credentials
            from beam_runner_jobservices.errors import JobApiError, JobServicesError

        try:
            credentials = read_credentials(found)
            with JobClient(found.job_endpoint, CALL_SECONDS, credentials) as client:
                code = self.act(client, found)
                sys.stdout.flush()
                return code
        except JobApiError as error:
            return self._fail(program, explain_failed_call(error, found.job_endpoint))
        except (CommandFailed, JobServicesError) as error:
            return self._fail(program, str(error))
        except KeyboardInterrupt:
            return _INTERRUPTED
        except BrokenPipeError:
            # The reader of the output, such as `head`, has exited. Replace the output, because
            # Python flushes it again at its exit.
            with open(os.devnull, "wb") as nothing:
                os.dup2(nothing.fileno(), sys.stdout.fileno())
            return 0

    def _fail(self, program: str, text: str) -> int:
        from beam_runner_runtime.logs import escape_unprintable

        print(f"{program} {self.name}: {escape_unprintable(text)}", file=sys.stderr)
        return 1

    def create_parser(self, program: str) -> argparse.ArgumentParser:
        """Returns the parser of the command line."""
        from beam_runner_jobservices.credential_flags import add_credential_flags

        parser = CommandParser(
            prog=f"{program} {self.name}", description=self.description, allow_abbrev=False
        )
        self.add_flags(parser)
        parser.add_argument(
            "--job-endpoint",
            type=parse_endpoint,
            default="localhost:8099",
            metavar="HOST:PORT",
            help="address of the job server (default: %(default)s)",
        )
        add_credential_flags(parser.add_argument)
        parser.add_argument("--json", action="store_true", help="print JSON")
        return parser


class CommandParser(argparse.ArgumentParser):
    """Parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def parse_endpoint(text: str) -> str:
    """Returns the address of a server.

    Raises:
        argparse.ArgumentTypeError: the text has no port.
    """
    host, colon, port = text.rpartition(":")
    if not host or not colon or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise argparse.ArgumentTypeError(
            f"expected HOST:PORT, such as localhost:8099, got {text!r}"
        )
    return text


def explain_failed_call(error: JobApiError, address: str) -> str:
    """Returns one sentence about a call that failed."""
    match error.code:
        case "UNAVAILABLE":
            return f"no job server responds at {address}: {error.text}"
        case "DEADLINE_EXCEEDED":
            return f"the server at {address} did not respond within {CALL_SECONDS:.0f} s"
        case "UNIMPLEMENTED":
            return f"the server at {address} doesn't support this call: {error.text}"
        case "UNAUTHENTICATED":
            return f"the server at {address} requires a token: set --token-file"
        case _:
            return f"the server at {address} refuses: {error.text}"


def print_json(value: Any) -> None:
    """Prints a value as indented JSON."""
    print(json.dumps(value, indent=2))


def print_lines(lines: Iterable[str]) -> None:
    """Prints lines to standard output as the iterable yields them."""
    for line in lines:
        print(line)
