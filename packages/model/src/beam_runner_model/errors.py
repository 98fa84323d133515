"""Base classes of errors in every layer. Each error text addresses the person who submits the job
or starts the server.
"""

from __future__ import annotations


class RunnerError(Exception):
    """Base of all errors that the layers raise deliberately."""


class Unavailable(RunnerError):
    """Error of a missing service: for example, the server is stopping or no cluster can run the
    job.
    """
