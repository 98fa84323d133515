from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from beam_runner_runtime.tuning import TUNING
from beam_spark_io.sessions import find_session

from beam_spark_executor.spark.existing_session import find_missing_settings, reject_spark_connect
from beam_spark_executor.spark.session import RunningSpark, start_spark
from beam_spark_executor.spark.settings import (
    SparkSettings,
    SparkUnavailable,
    make_default_properties,
)


def session_with(**changed: str) -> Any:
    conf = make_default_properties("local[1]", Path(tempfile.gettempdir())) | changed
    context = SimpleNamespace(master="local[1]", getConf=lambda: SimpleNamespace(getAll=conf.items))
    return SimpleNamespace(sparkContext=context)


def test_search_for_existing_session_returns_none_without_pyspark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "pyspark.sql.session", raising=False)
    assert find_session() is None


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_existing_spark_session_is_found(spark: RunningSpark) -> None:
    found = find_session()
    assert found is not None
    assert found.sparkContext is spark.session.sparkContext


def test_missing_setting_of_existing_session_is_reported_with_its_name() -> None:
    assert find_missing_settings(session_with()) == ""
    session = session_with(**{"spark.scheduler.mode": "FIFO"})
    assert find_missing_settings(session) == "spark.scheduler.mode=FAIR"


def test_existing_session_on_yarn_works_without_unix_socket_setting() -> None:
    conf = make_default_properties("yarn", Path(tempfile.gettempdir()))
    del conf["spark.python.unix.domain.socket.enabled"]
    context = SimpleNamespace(master="yarn", getConf=lambda: SimpleNamespace(getAll=conf.items))
    assert find_missing_settings(SimpleNamespace(sparkContext=context)) == ""  # type: ignore[arg-type]


def test_existing_session_without_worker_reuse_is_refused() -> None:
    session = session_with(**{"spark.python.worker.reuse": "False"})
    with pytest.raises(SparkUnavailable, match="has spark.python.worker.reuse=false"):
        find_missing_settings(session)


def test_spark_connect_session_is_refused_with_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    reject_spark_connect({"spark.master": "local"})
    with pytest.raises(SparkUnavailable, match=r"Spark Connect \(spark.remote=sc://h\) is not"):
        reject_spark_connect({"spark.remote": "sc://h"})
    here = SimpleNamespace(_default_session=SimpleNamespace(is_stopped=False))
    module = SimpleNamespace(SparkSession=here)
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", module)
    with pytest.raises(SparkUnavailable, match="the session of this program"):
        reject_spark_connect({})
    here._default_session.is_stopped = True
    reject_spark_connect({})
    monkeypatch.setenv("SPARK_REMOTE", "sc://h:1")
    with pytest.raises(SparkUnavailable, match=r"\(SPARK_REMOTE=sc://h:1\)"):
        reject_spark_connect({})


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_existing_session_is_used_and_not_stopped(spark: RunningSpark) -> None:
    taken = start_spark(SparkSettings())
    assert taken.session.sparkContext is spark.session.sparkContext
    taken.stop()
    assert spark.is_alive
    assert spark.session.range(3).count() == 3


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_existing_session_gets_required_settings(spark: RunningSpark) -> None:
    conf = dict(spark.session.sparkContext.getConf().getAll())
    assert spark.master == f"local[{2 * TUNING.slots_per_core},4]"
    assert conf["spark.sql.adaptive.enabled"] == "false"
    assert conf["spark.driver.host"] == "127.0.0.1"
    assert conf["spark.ui.showConsoleProgress"] == "false"
    assert spark.session.sparkContext.uiWebUrl is None
