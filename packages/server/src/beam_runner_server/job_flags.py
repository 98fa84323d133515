"""Command-line flags for how jobs run, fail, wait and end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from beam_runner_runtime.job_options import BulkMode

from beam_runner_server import flag_values

DEFAULT_OUTAGE_SECONDS = 600.0
DEFAULT_RETENTION_SECONDS = 7 * 24 * 3600.0


def add_job_flags(flag: Callable[..., Any]) -> None:
    """Adds the flags with `flag`, which is a parser's ``add_argument``."""
    flag(
        "--on-sigterm",
        choices=("suspend", "cancel", "drain"),
        help="action for running jobs at SIGTERM: suspend leaves them to the next server, drain"
        " waits for their end (default: suspend with a --state-dir, else cancel)",
    )
    flag(
        "--max-task-attempts",
        type=flag_values.parse_count,
        default=1,
        metavar="N",
        help="maximum attempts at a bundle of a bounded job if user code raises (default:"
        " %(default)s); 4 if its process is lost",
    )
    flag(
        "--max-stream-attempts",
        type=flag_values.parse_max_attempts,
        default=None,
        metavar="N|unlimited",
        help="maximum attempts at a bundle of a stream, with pauses of 1 s to 2 min (default: unlimited)",
    )
    flag(
        "--outage-limit",
        type=flag_values.parse_duration,
        default=DEFAULT_OUTAGE_SECONDS,
        metavar="DURATION",
        help="time for which a bounded job waits for an unavailable store or disk; -1 sets no"
        " limit, as in a stream (default: 10m)",
    )
    flag(
        "--bulk",
        choices=tuple(one.value for one in BulkMode),
        default=BulkMode.AUTO.value,
        help="run connected bounded stages as one Spark job with Spark's shuffle, unless the job"
        " sets this option; auto does this on other machines, except for small data (default:"
        " %(default)s)",
    )
    flag(
        "--hide-elements",
        action="store_true",
        help="omit the processed element from errors; the text of exceptions stays",
    )


def add_retention_flags(flag: Callable[..., Any]) -> None:
    """Adds the flags that set which records of ended jobs the server retains."""
    flag(
        "--keep-failed-streams",
        type=flag_values.parse_retention,
        default=None,
        metavar="DURATION",
        help="with a --state-dir: time, such as 36h, for which the server retains the state of a"
        " failed or cancelled stream (default: 7d)",
    )
    flag(
        "--keep-jobs",
        type=flag_values.parse_count,
        default=500,
        metavar="N",
        help="maximum number of ended jobs with their states, messages, metrics and errors, up to"
        " 256 MiB, or 64 MiB without a --state-dir (default: %(default)s)",
    )
    flag(
        "--keep-jobs-for",
        type=flag_values.parse_duration,
        default=None,
        metavar="DURATION",
        help="time, such as 30d, after which the server forgets an ended job (default: no limit,"
        " like -1)",
    )
    flag(
        "--keep-messages",
        type=flag_values.parse_count,
        default=10_000,
        metavar="N",
        help="maximum number of the latest messages of a job, up to 16 million characters"
        " (default: %(default)s)",
    )
