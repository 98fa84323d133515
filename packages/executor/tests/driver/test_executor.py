"""How wide a job is run: by the cluster's cores, but not where bundles would only take turns."""

from __future__ import annotations

import pytest
from beam_runner_worker.records import JobContext

from beam_spark_executor.driver.executor import cores_of
from beam_spark_executor.plan import JobPlan


@pytest.mark.parametrize(
    ("one_interpreter", "streaming", "cores"),
    [(False, False, 4), (False, True, 4), (True, False, 1), (True, True, 4)],
)
def test_cores(one_interpreter: bool, streaming: bool, cores: int) -> None:
    context = JobContext("job", "job", "{}", {})
    plan = JobPlan(context, {}, {}, streaming=streaming, one_interpreter=one_interpreter)
    assert cores_of(plan, 4) == cores
