"""Health endpoints for load balancers and Kubernetes."""

from __future__ import annotations

from collections.abc import Callable

from beam_runner_jobservices.errors import JobApiError
from beam_runner_model.readiness import Readiness
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from beam_runner_web.watch.watching import JobFollowers

HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths of the health endpoints, which don't require a token. Responses contain only the texts of this module."""
_SENTENCES = {
    Readiness.STARTING: "The server is starting.",
    Readiness.DRAINING: "The server is draining its jobs and accepts no new job.",
    Readiness.NO_PLACEMENT: "Spark doesn't run.",
    Readiness.NO_STATE_STORE: "The state store doesn't accept commits of this server.",
}
_NO_JOB_SERVER = "The job server doesn't answer."


class HealthProbes:
    """Handlers of `HEALTH_PATHS`.

    Args:
        check_readiness: returns whether the job server can run jobs.
    """

    def __init__(self, watches: JobFollowers, check_readiness: Callable[[], Readiness]) -> None:
        self._watches = watches
        self._check_readiness = check_readiness

    async def answer_health(self, request: Request) -> Response:
        """Responds with 200: the response itself shows that this process is alive."""
        return PlainTextResponse("ok\n")

    def answer_readiness(self, request: Request) -> Response:
        """Responds with 200 if the server can run jobs, and otherwise with 503 and one sentence."""
        readiness = self._check_readiness()
        if readiness is not Readiness.READY:
            return PlainTextResponse(f"{_SENTENCES[readiness]}\n", 503)
        try:
            self._watches.client.list_jobs()
        except JobApiError:
            return PlainTextResponse(f"{_NO_JOB_SERVER}\n", 503)
        return PlainTextResponse("ok\n")
