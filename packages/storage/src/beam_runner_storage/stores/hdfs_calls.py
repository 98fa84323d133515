"""Calls of HDFS's client that end: it waits without limit for who does not answer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Concatenate, ParamSpec, TypeVar

from beam_runner_model.threads import start_helper
from hdfs_native import Client

P = ParamSpec("P")
T = TypeVar("T")

_ANSWER_SECONDS = 10.0
"""For how long one call is waited for, where there is patience for more than one."""
_FAILOVER = "dfs.client.failover"
_SETTINGS = {
    f"{_FAILOVER}.max.attempts": "2",
    f"{_FAILOVER}.sleep.base.millis": "50",
    f"{_FAILOVER}.sleep.max.millis": "200",
}
"""The client by itself would try for three minutes; it is to say soon what is wrong, and is asked again."""


class NoAnswerError(Exception):
    """HDFS said nothing in all the time that a call may take."""


class HdfsCalls:
    """A client that is replaced when one of its calls does not end, so that the next one has connections of its own.

    Calls raise what the client raises. Thread-safe.

    Args:
        server: scheme and host of the URL.
        patience: how many seconds a call may take at most.
    """

    def __init__(self, server: str, patience: float) -> None:
        self._server = server
        self._seconds = min(patience, _ANSWER_SECONDS)
        self._client = Client(server, _SETTINGS)

    def __call__(
        self, call: Callable[Concatenate[Client, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """What a method of the client, or a function of it, returns.

        Raises:
            NoAnswerError: it did not end.
        """
        client = self._client
        try:
            return self.of(call, client, *args, **kwargs)
        except NoAnswerError:
            if self._client is client:
                self._client = self._other_client()
            raise

    def of(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same of a method of a file's.

        Raises:
            NoAnswerError: it did not end.
        """
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(call(*args, **kwargs))
            except Exception as error:
                answer.set_exception(error)
            except BaseException as error:  # a panic
                answer.set_exception(RuntimeError(f"the HDFS client failed: {error}"))

        start_helper(run, "hdfs")
        try:
            return answer.result(self._seconds)
        except TimeoutError:
            if answer.done():
                raise
            raise NoAnswerError(f"no response within {self._seconds:g} s") from None

    def _other_client(self) -> Client:
        # It asks the namenodes of a name service in the order of their list, and would wait for the same one again.
        service = self._server.partition("://")[2]
        return Client(self._server, {**_SETTINGS, f"{_FAILOVER}.random.order.{service}": "true"})
