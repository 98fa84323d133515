"""Detection of bundles that an SDK abandoned without a response.

For example, Python's SDK sends no response for an exception whose text can't be encoded. The SDK
then doesn't answer progress requests for that bundle, or answers that it doesn't know the bundle.
But the SDK still answers progress requests for other bundles.
"""

from __future__ import annotations

from beam_runner_worker.errors import BundleError, HarnessError
from beam_runner_worker.fnapi.bundle import SdkBundle
from beam_runner_worker.fnapi.connection import InstructionRefused, SdkConnection
from beam_runner_worker.fnapi.progress import create_progress_request

_NO_BUNDLE = "is-anybody-there"
_ANSWER_SECONDS = 5.0
_RESPONSE_SECONDS = 2.0
_TIMES = 2
"""Number of consecutive failed checks after which the bundle fails."""


class AbandonedBundleDetector:
    """Watch of one bundle.

    Args:
        connection: connection to the SDK.
        bundle: bundle that the SDK processes.
        stage_name: name of the stage, for the error.
    """

    def __init__(self, connection: SdkConnection, bundle: SdkBundle, stage_name: str) -> None:
        self._connection = connection
        self._bundle = bundle
        self._stage_name = stage_name
        self._seen = 0

    def record_answer(self) -> None:
        """Called when the SDK answers a progress request for the bundle."""
        self._seen = 0

    def record_missing_answer(self, error: HarnessError) -> None:
        """Called when the SDK doesn't answer a progress request; fails the bundle if the SDK has abandoned it."""
        if isinstance(error, InstructionRefused) or self._answers_other_requests():
            self._bundle.wait_response(_RESPONSE_SECONDS)
            self._seen += 1
        if self._seen >= _TIMES and self._bundle.response is None:
            why = (
                "the SDK stopped processing the bundle without an error; a probable"
                " cause is an exception whose text can't be encoded; look in the log of"
                " the SDK's process"
            )
            self._bundle.fail(BundleError(self._stage_name, why, ""))

    def _answers_other_requests(self) -> bool:
        try:
            self._connection.send_and_wait(create_progress_request(_NO_BUNDLE), _ANSWER_SECONDS)
        except InstructionRefused:
            return True
        except HarnessError:
            return False
        return True
