"""The errors of this package; every text is written for the person who submitted the job."""

from __future__ import annotations

from beam_runner_model.errors import RunnerError


class JobServicesError(RunnerError):
    """Base of all errors this package raises on purpose."""


class JobRejected(JobServicesError):
    """Raised by a `JobExecutor` that will not run this job.

    `reason` reaches the user word by word: name the feature and the full name of the transform that
    uses it. With `unsupported` (the default) the Run RPC fails with UNIMPLEMENTED, otherwise with
    INVALID_ARGUMENT.
    """

    def __init__(self, reason: str, *, unsupported: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.unsupported = unsupported


class JobApiError(JobServicesError):
    """Raised by `JobClient`: the server refused, or could not be reached. `code` is the gRPC
    status' name, such as NOT_FOUND.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{text} ({code})")
        self.code = code
        self.text = text

    def __reduce__(self) -> tuple[type[JobApiError], tuple[str, str]]:
        """Pickles by its two texts: clients may run in other processes."""
        return (JobApiError, (self.code, self.text))


class IllegalTransition(JobServicesError):
    """A job was told to enter a state that its present state does not lead to."""


class AddressError(JobServicesError):
    """The server cannot listen at the address it was given."""


class Unguarded(AddressError):
    """The server was told to listen where other machines reach it, and may not, or nothing guards it."""


class NotFound(JobServicesError):
    """No such job, preparation, staging token or artifact."""


class InvalidRequest(JobServicesError):
    """What the client sent is wrong in itself; sending it again will not help."""


class NotReady(JobServicesError):
    """The request is right, but not in the state that things are in."""


class TooMany(JobServicesError):
    """A limit of the server is reached."""


class DiskFull(JobServicesError):
    """There is no room on the server's disk for what a client sends."""


class Damaged(JobServicesError):
    """What was kept of something is not what was written."""


class ExecutorFailed(JobServicesError):
    """The executor raised something other than `JobRejected` while it started the job."""
