"""The command ``story``: prints everything that the journal of a job says about one bundle."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import attrs

NAME = "story"
_DESCRIPTION = (
    "Prints all records of one bundle in the journal of a job: the time of its"
    " planning, the lane of each attempt, failures, the commit, and the data that the"
    " bundle read and wrote. Requests the records from the server that runs the job or"
    " stores its state."
)


def command_of(program: str) -> Callable[[Sequence[str]], int]:
    """Returns the command as a program runs it; ``program`` is its name, for the usage text."""
    return partial(main, program)


def main(program: str, arguments: Sequence[str]) -> int:
    """Prints the story; returns 0, or 1 if the server can't tell it or the journal knows no such bundle."""
    found = _parser(program).parse_args(arguments)
    # Imported here, since Beam takes seconds to import, and a wrong flag should not.
    from beam_runner_jobservices.channels import Credentials
    from beam_runner_jobservices.client import JobClient
    from beam_runner_jobservices.errors import JobServicesError
    from beam_runner_jobservices.guard import read_secret, read_token
    from beam_runner_model.stories import StoryStatus, render_story

    try:
        credentials = Credentials(
            "" if found.token_file is None else read_token(found.token_file),
            found.tls_ca is not None,
            read_secret(found.tls_ca),
        )
        with JobClient(found.job_endpoint, credentials=credentials) as client:
            story = client.story(found.job_id, found.bundle)
    except JobServicesError as error:
        print(f"{program} {NAME}: {error}", file=sys.stderr)
        return 1
    lines = [json.dumps(attrs.asdict(story), indent=2)] if found.json else render_story(story)
    print("\n".join(lines))
    return 1 if story.status in (StoryStatus.UNKNOWN, StoryStatus.NO_JOURNAL) else 0


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{program} {NAME}", description=_DESCRIPTION)
    parser.add_argument(
        "job_id", metavar="JOB", help="id of the job, as `JobClient.jobs` returns it"
    )
    parser.add_argument("bundle", metavar="BUNDLE", type=int, help="number of the bundle")
    parser.add_argument(
        "--job-endpoint",
        default="localhost:8099",
        metavar="HOST:PORT",
        help="address of the job server (default: %(default)s)",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the token of a server that requires one",
    )
    parser.add_argument(
        "--tls-ca",
        type=Path,
        metavar="FILE",
        help="PEM file of the authority that signed the server's certificate; enables TLS",
    )
    parser.add_argument("--json", action="store_true", help="print the record as JSON")
    return parser
