"""Finds out that an SDK has given up a bundle without ever saying so.

Python's SDK can't send an exception whose text can't be encoded, say, and sends nothing then. It does not
answer either when it is asked how far that bundle is, or says that it knows none; but it answers when
it is asked about others.
"""

from __future__ import annotations

from beam_runner_worker.errors import BundleError, HarnessError
from beam_runner_worker.fnapi.bundle import SdkBundle
from beam_runner_worker.fnapi.connection import SdkConnection, SdkRefused
from beam_runner_worker.fnapi.progress import progress_request

_NO_BUNDLE = "is-anybody-there"
_ANSWER_SECONDS = 5.0
_RESPONSE_SECONDS = 2.0
_TIMES = 2
"""How often in a row it is to be seen."""


class VanishedBundle:
    """Watches one bundle.

    Args:
        connection: to the SDK.
        bundle: that it was given.
        stage_name: for the error.
    """

    def __init__(self, connection: SdkConnection, bundle: SdkBundle, stage_name: str) -> None:
        self._connection = connection
        self._bundle = bundle
        self._stage_name = stage_name
        self._seen = 0

    def answered(self) -> None:
        """The SDK knows the bundle."""
        self._seen = 0

    def unanswered(self, error: HarnessError) -> None:
        """The SDK has not told how far the bundle is; fails the bundle if it knows none any more."""
        if isinstance(error, SdkRefused) or self._answers_otherwise():
            self._bundle.wait_response(_RESPONSE_SECONDS)
            self._seen += 1
        if self._seen >= _TIMES and self._bundle.response is None:
            why = (
                "the SDK stopped processing the bundle without an error; a probable"
                " cause is an exception whose text can't be encoded; look in the log of"
                " the SDK's process"
            )
            self._bundle.fail(BundleError(self._stage_name, why, ""))

    def _answers_otherwise(self) -> bool:
        try:
            self._connection.ask(progress_request(_NO_BUNDLE), _ANSWER_SECONDS)
        except SdkRefused:
            return True
        except HarnessError:
            return False
        return True
