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
        help="action for running jobs when SIGTERM stops the server: suspend leaves them to the next server, cancel cancels them,"
        " and drain drains them and waits for their end (default: suspend with a --state-dir, else cancel)",
    )
    flag(
        "--max-task-attempts",
        type=flag_values.parse_attempts,
        default=1,
        metavar="N",
        help="maximum attempts at a bundle of a bounded job whose user code raises an exception (default: %(default)s); a bundle"
        " that is lost with its process has 4 attempts",
    )
    flag(
        "--max-stream-attempts",
        type=flag_values.parse_max_attempts,
        default=None,
        metavar="N|unlimited",
        help="maximum attempts at a bundle of a streaming job, with pauses of 1 s to 2 min between attempts (default: unlimited)",
    )
    flag(
        "--outage-limit",
        type=flag_values.parse_duration,
        default=DEFAULT_OUTAGE_SECONDS,
        metavar="DURATION",
        help="duration for which a bounded job waits for an unavailable store or disk before the job fails; -1 sets no limit, and"
        " streaming jobs never have a limit (default: 10m)",
    )
    flag(
        "--keep-failed-streams",
        type=flag_values.parse_retention,
        default=None,
        metavar="DURATION",
        help="with a --state-dir: duration, such as 36h or 7d, for which the server retains the state of a failed or cancelled"
        " streaming job; 0 retains no state (default: 7d)",
    )
    flag(
        "--bulk",
        choices=tuple(one.value for one in BulkMode),
        default=BulkMode.AUTO.value,
        help="whether the server runs connected stages of bounded data as one Spark job, with Spark's shuffle between them,"
        " unless the job sets this option; auto does so on other machines, except for small data (default: %(default)s)",
    )
    flag(
        "--hide-elements",
        action="store_true",
        help="omit the processed element from the errors of jobs; the text of exceptions in user code stays",
    )
