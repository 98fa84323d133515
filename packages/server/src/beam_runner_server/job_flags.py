"""Command-line flags for how jobs run, fail, wait and end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from beam_runner_runtime.job_options import Bulk

from beam_runner_server import flag_values

DEFAULT_OUTAGE_SECONDS = 600.0
DEFAULT_RETENTION_SECONDS = 7 * 24 * 3600.0


def add_job_flags(flag: Callable[..., Any]) -> None:
    """Adds the flags with `flag`, which is a parser's ``add_argument``."""
    flag(
        "--on-sigterm",
        choices=("suspend", "cancel", "drain"),
        help="what becomes of jobs when SIGTERM stops the server: they are left to the next server,"
        " cancelled, or drained, for which the server waits (default: suspend with a --state-dir,"
        " else cancel)",
    )
    flag(
        "--max-task-attempts",
        type=flag_values.attempts,
        default=1,
        metavar="N",
        help="most attempts at a bundle of a bounded job whose user code raises (default: %(default)s);"
        " a bundle that is lost with its process has 4",
    )
    flag(
        "--max-stream-attempts",
        type=flag_values.attempts_or_unlimited,
        default=None,
        metavar="N|unlimited",
        help="most attempts at a bundle of a stream; pauses of 1 s to 2 min come between attempts"
        " (default: unlimited)",
    )
    flag(
        "--outage-limit",
        type=flag_values.duration,
        default=DEFAULT_OUTAGE_SECONDS,
        metavar="DURATION",
        help="how long a bounded job waits for a store or disk that is unavailable, before the job fails;"
        " -1 is without limit, as it always is for streams (default: 10m)",
    )
    flag(
        "--keep-failed-streams",
        type=flag_values.retention,
        default=None,
        metavar="DURATION",
        help="with a --state-dir: how long the state of a stream that failed or was cancelled is kept, as"
        " in 36h or 7d; 0 keeps none (default: 7d)",
    )
    flag(
        "--bulk",
        choices=tuple(one.value for one in Bulk),
        default=Bulk.AUTO.value,
        help="whether stages of bounded data are run together as one Spark job, with what goes between"
        " them in Spark's shuffle, where a job does not say it; auto: on other machines, but for what"
        " is known to be little (default: %(default)s)",
    )
    flag(
        "--hide-elements",
        action="store_true",
        help="leave the element that was processed out of the errors of jobs (what user code puts"
        " into its exceptions stays)",
    )
