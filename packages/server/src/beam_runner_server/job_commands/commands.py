"""Registry of the commands for jobs, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from beam_runner_server.job_commands import (
    describe_command,
    ending_commands,
    jobs_command,
    logs_command,
    quarantine_command,
    replay_command,
    savepoint_command,
    story_command,
    update_command,
)

ALL = (
    jobs_command.COMMAND,
    describe_command.COMMAND,
    logs_command.COMMAND,
    ending_commands.CANCEL,
    ending_commands.DRAIN,
    story_command.COMMAND,
    quarantine_command.COMMAND,
    replay_command.COMMAND,
    savepoint_command.COMMAND,
    update_command.COMMAND,
)
HELP = (
    " `jobs`, `describe`, `logs`, `cancel`, `drain`, `story` and `update` show and end the jobs of "
    "a"
    " running server, `quarantine` lists quarantined elements, and `replay` processes them again; "
    "`COMMAND --help` describes each"
    " command."
)
"""A sentence for the ``--help`` of a program with these commands."""


def list_commands(program: str) -> Mapping[str, Callable[[Sequence[str]], int]]:
    """Returns the commands by name, as functions that run them. ``program`` is the program's name
    for usage texts and errors.
    """
    return {one.name: partial(one.run, program) for one in ALL}
