"""HDFS client calls with a timeout; the client itself would wait for a response without limit."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Concatenate, ParamSpec, TypeVar

from beam_runner_model.threads import start_helper_thread
from hdfs_native import Client

P = ParamSpec("P")
T = TypeVar("T")

_ANSWER_SECONDS = 10.0
"""Maximum seconds of one call, even if the patience is longer."""
_FAILOVER = "dfs.client.failover"
_SETTINGS = {
    f"{_FAILOVER}.max.attempts": "2",
    f"{_FAILOVER}.sleep.base.millis": "50",
    f"{_FAILOVER}.sleep.max.millis": "200",
}
"""HDFS client settings that shorten the client's own retries from three minutes. The caller retries,
and must know the reason soon.
"""


class NoResponseError(Exception):
    """Error for a call without a response within the time limit."""


class TimedHdfsClient:
    """Client that is replaced after a call times out, so that the next call uses new connections;
    thread-safe.

    Calls raise the errors of the client.

    Args:
        server: scheme and host of the URL.
        patience: maximum seconds of a call.
    """

    def __init__(self, server: str, patience: float) -> None:
        self._server = server
        self._seconds = min(patience, _ANSWER_SECONDS)
        self._client = Client(server, _SETTINGS)

    def __call__(
        self, call: Callable[Concatenate[Client, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Calls a client method, or a function that takes the client, and returns its result.

        Raises:
            NoResponseError: The call timed out.
        """
        client = self._client
        try:
            return self.call_with_timeout(call, client, *args, **kwargs)
        except NoResponseError:
            if self._client is client:
                self._client = self._create_new_client()
            raise

    def call_with_timeout(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a method of a file, and returns its result.

        Raises:
            NoResponseError: The call timed out.
        """
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(call(*args, **kwargs))
            except Exception as error:
                answer.set_exception(error)
            except BaseException as error:  # the client's native code panicked
                answer.set_exception(RuntimeError(f"the HDFS client failed: {error}"))

        start_helper_thread(run, "hdfs")
        try:
            return answer.result(self._seconds)
        except TimeoutError:
            if answer.done():
                raise
            raise NoResponseError(f"no response within {self._seconds:g} s") from None

    def _create_new_client(self) -> Client:
        # Use a random order. Otherwise the new client would try the same unresponsive namenode of
        # the name service first.
        service = self._server.partition("://")[2]
        return Client(self._server, {**_SETTINGS, f"{_FAILOVER}.random.order.{service}": "true"})
