"""Errors of this package. Their messages are for the user who submitted the job."""

from __future__ import annotations

from beam_runner_model.errors import RunnerError


class JobServicesError(RunnerError):
    """Base class of all errors that this package raises deliberately."""


class JobRejected(JobServicesError):
    """Raised by a `JobExecutor` that refuses to run a job.

    `reason` reaches the user unchanged, so it must name the feature and the full name of the
    transform that uses it. With `unsupported` (the default) the Run call fails with UNIMPLEMENTED,
    otherwise with INVALID_ARGUMENT.
    """

    def __init__(self, reason: str, *, unsupported: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.unsupported = unsupported


class JobApiError(JobServicesError):
    """Raised by `JobClient` if the server refuses a call or can't be reached.

    `code` is the name of the gRPC status, such as NOT_FOUND.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{text} ({code})")
        self.code = code
        self.text = text

    def __reduce__(self) -> tuple[type[JobApiError], tuple[str, str]]:
        """Makes the error picklable, because clients can run in other processes. The pickle
        contains the two texts of the error.
        """
        return (JobApiError, (self.code, self.text))


class IllegalTransition(JobServicesError):
    """Raised for a job state that can't follow the current state."""


class AddressError(JobServicesError):
    """Raised if the server can't listen on the given address."""


class UnguardedAddress(AddressError):
    """Raised if other machines can reach the server's address, and the server isn't allowed to accept
    remote clients or requires no credentials.
    """


class NotFound(JobServicesError):
    """Raised for an unknown job, preparation, staging token or artifact."""


class InvalidRequest(JobServicesError):
    """Raised for an invalid request. A retry of the same request fails again."""


class NotReady(JobServicesError):
    """Raised for a valid request that the current state of the job doesn't permit."""


class LimitExceeded(JobServicesError):
    """Raised if a limit of the server is reached."""


class DiskFull(JobServicesError):
    """Raised if the server's disk is too full for the data that a client sends."""


class DamagedData(JobServicesError):
    """Raised if stored data differs from the data that was written."""


class ExecutorFailed(JobServicesError):
    """Raised if the executor fails to start a job with an error other than `JobRejected`."""


def strip_traceback(error: BaseException) -> BaseException:
    """Removes the traceback and the causes from an error, because tracebacks and causes refer to
    many objects.
    """
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
