"""The errors that every layer knows; the text of each is for the person who submitted the job or started the server."""

from __future__ import annotations


class RunnerError(Exception):
    """Base of all errors that a layer raises on purpose."""


class Unavailable(RunnerError):
    """What a request or a job needs isn't there: the server stops, or there is nothing to run jobs on."""
