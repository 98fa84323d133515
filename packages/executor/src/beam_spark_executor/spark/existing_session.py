"""Checks of a Spark session that exists in the user's program: whether the server can use it, and
which settings are missing.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beam_spark_executor.spark.settings import SparkUnavailable, make_default_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""The environment variable with which ``spark-submit`` names its Java process."""

_REMOTE = "SPARK_REMOTE"
_REUSE = "spark.python.worker.reuse"
_SOCKETS = "spark.python.unix.domain.socket.enabled"
_WORTH_HAVING = ("spark.python.daemon.module", "spark.scheduler.mode", _SOCKETS)
"""Settings that can't be changed in an existing session, and without which jobs are slower."""


def reject_spark_connect(conf: Mapping[str, str]) -> None:
    """Raises an error if Spark is only reachable by Spark Connect.

    Args:
        conf: the user's Spark properties.

    Raises:
        SparkUnavailable: this process uses Spark Connect; the text names the setting.
    """
    found = _find_spark_connect_setting(conf)
    if found:
        raise SparkUnavailable(
            f"Spark Connect ({found}) is not supported, because its clients have no"
            " SparkContext: remove it, and set the master URL of the cluster itself."
        )


def _find_spark_connect_setting(conf: Mapping[str, str]) -> str:
    if "spark.remote" in conf:
        return f"spark.remote={conf['spark.remote']}"
    if os.environ.get(_REMOTE):
        return f"{_REMOTE}={os.environ[_REMOTE]}"
    connect = sys.modules.get("pyspark.sql.connect.session")
    session = None if connect is None else connect.SparkSession._default_session
    there = session is not None and not getattr(session, "is_stopped", False)
    return "the session of this program" if there else ""


def find_missing_settings(session: SparkSession) -> str:
    """Returns the settings of a server that a session lacks: ``KEY=VALUE, KEY=VALUE``; empty if none
    is missing.

    Raises:
        SparkUnavailable: The session doesn't reuse Python workers, which the runner requires.
    """
    context: Any = session.sparkContext
    conf = dict(context.getConf().getAll())
    if conf.get(_REUSE, "true").lower() == "false":
        raise SparkUnavailable(
            f"the SparkSession of this program has {_REUSE}=false, so each Python"
            " worker exits after one task: create the session without this setting."
        )
    conf.setdefault(_SOCKETS, "false")  # Spark's default
    ours = make_default_properties(str(context.master), Path(tempfile.gettempdir()))
    return ", ".join(f"{key}={ours[key]}" for key in _WORTH_HAVING if conf.get(key) != ours[key])
