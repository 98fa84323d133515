"""Base classes of the errors that the runner's packages raise. Each error text addresses the person
who submits the job or starts the server.
"""

from __future__ import annotations


class RunnerError(Exception):
    """Base class of all errors that the runner's packages raise deliberately."""


class Unavailable(RunnerError):
    """Error of a missing service: for example, the server is stopping or no cluster can run the
    job.
    """
