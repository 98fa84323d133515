"""Beam's tests of its Prism runner, with this server in place of Prism.

``tests/validates_runner/unsupported.toml`` lists the tests that can't pass; a listed test that
passes is an error. With ``--prism FILE`` the tests run on Prism itself, for comparison.
"""

from __future__ import annotations

import sys
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import find_marked_processes
from waiting import wait_until

pytest.importorskip("parameterized", reason="wants the group validates-runner")
if sys.platform != "linux":
    pytest.skip("looks for what is left in /proc", allow_module_level=True)

from apache_beam.runners.portability import prism_runner_test

UNSUPPORTED = Path(__file__).parents[1] / "validates_runner" / "unsupported.toml"
LISTED: dict[str, str] = tomllib.loads(UNSUPPORTED.read_text(encoding="utf-8"))["prism"]
SERVER = Path(sys.executable).with_name("beam-spark-jobserver")
GONE_SECONDS = 60.0
"""Ten on a machine that has time."""
_MARK = "BEAM_TEST_PRISM_SUITE"


@pytest.fixture(scope="class")
def binary(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yields the program that replaces Prism. Beam kills it after the last test, and no process may stay."""
    mark = uuid.uuid4().hex
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(_MARK, mark)
        yield request.config.getoption("--prism") or str(SERVER)
    request.cls.tearDownClass()
    wait_until(
        lambda: not find_marked_processes(_MARK, mark), GONE_SECONDS, "all of the server is gone"
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
class TestPrismRunner(prism_runner_test.PrismRunnerTest):
    """Each starts or finds the server as Beam's tests do, and runs over LOOPBACK, as `PrismRunner` does."""

    @pytest.fixture(autouse=True)
    def parse_options(self, request: pytest.FixtureRequest, binary: str) -> None:
        """Replaces Beam's parser of command-line options."""
        self.set_prism_bin(binary)
        self.environment_type = "LOOPBACK"
        self.environment_options = None
        reason = LISTED.get(self._testMethodName)
        if reason and binary == str(SERVER):
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))


def test_prism_suite_list_names_only_existing_tests() -> None:
    assert not [name for name in LISTED if not hasattr(TestPrismRunner, name)]
