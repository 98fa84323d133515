"""Detection of bundles that an SDK abandoned without a response.

For example, Python's SDK doesn't respond after an exception whose text can't be encoded. After
that, the SDK rejects or ignores progress requests for the abandoned bundle. But it still answers
progress requests for other bundles.
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
    """Detector for one bundle, which fails the bundle if the SDK has abandoned it.

    Args:
        stage_name: name of the stage, for the error.
    """

    def __init__(self, connection: SdkConnection, bundle: SdkBundle, stage_name: str) -> None:
        self._connection = connection
        self._bundle = bundle
        self._stage_name = stage_name
        self._seen = 0

    def record_answer(self) -> None:
        """Resets the count of failed checks. Called when the SDK answers a progress request for the bundle."""
        self._seen = 0

    def record_missing_answer(self, error: HarnessError) -> None:
        """Fails the bundle if the SDK has abandoned it. Called when the SDK rejects or doesn't answer
        a progress request.
        """
        if isinstance(error, InstructionRefused) or self._does_sdk_answer_other_requests():
            self._bundle.wait_for_response(_RESPONSE_SECONDS)
            self._seen += 1
        if self._seen >= _TIMES and self._bundle.response is None:
            why = (
                "the SDK stopped processing the bundle without an error; a probable"
                " cause is an exception whose text can't be encoded; look in the log of"
                " the SDK's process"
            )
            self._bundle.fail_bundle(BundleError(self._stage_name, why, ""))

    def _does_sdk_answer_other_requests(self) -> bool:
        try:
            self._connection.send_and_wait(create_progress_request(_NO_BUNDLE), _ANSWER_SECONDS)
        except InstructionRefused:
            return True
        except HarnessError:
            return False
        return True
