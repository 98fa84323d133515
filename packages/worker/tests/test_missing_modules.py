from __future__ import annotations

from typing import Any, cast

import pytest

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.errors import BundleError, HarnessError
from beam_runner_worker.fnapi.bundle_state import BundleStateStores
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.failures import create_bundle_error
from beam_runner_worker.fnapi.side_inputs import SideInputPages
from beam_runner_worker.missing_modules import add_missing_module_advice

MISSING = "ModuleNotFoundError: No module named 'mine.parts'"
TRACE = (
    f'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    import it\n{MISSING}\n'
)


def test_advice_about_missing_module_is_on_first_line() -> None:
    for told in (
        add_missing_module_advice(MISSING),
        create_bundle_error(TRACE, "stage", {}).summary,
    ):
        first = told.splitlines()[0]
        assert first.startswith(MISSING)
        for word in ("'mine.parts' isn't installed", "--setup_file", "--requirements_file"):
            assert word in first
        assert "LOOPBACK" in first


def test_error_without_missing_module_is_unchanged() -> None:
    assert add_missing_module_advice("ValueError: no") == "ValueError: no"


@pytest.mark.parametrize("has_worked", [False, True])
def test_sdk_that_exits_for_missing_module_is_not_retried(has_worked: bool) -> None:
    connection = SdkConnection("1", "here")
    state = BundleStateStores(SideInputPages(cast("Any", None), ()), None, ())
    earlier = connection.open_bundle("b", "stage", state)
    if has_worked:
        response = beam_fn_api_pb2.InstructionResponse(instruction_id=earlier.instruction_id)
        connection.dispatch_response(response)
    bundle = connection.open_bundle("c", "stage", state)
    connection.last_lines.extend(("Traceback", MISSING, "it ends"))
    connection.mark_lost("the SDK closed its control stream")
    with pytest.raises(HarnessError if has_worked else BundleError, match="mine.parts"):
        bundle.poll_received_data()
