"""The Spark that a program has in its process before a server comes: what of it can be used, and what it lacks."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beam_spark_executor.spark.settings import SparkUnavailable, default_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""The environment variable in which ``spark-submit`` says where its Java process is."""

_REMOTE = "SPARK_REMOTE"
_REUSE = "spark.python.worker.reuse"
_WORTH_HAVING = (
    "spark.python.daemon.module",
    "spark.scheduler.mode",
    "spark.python.unix.domain.socket.enabled",
)
"""Settings that can't be changed once a session is there, and that jobs are slower without."""


def refuse_connect(conf: Mapping[str, str]) -> None:
    """Refuses a Spark that can be reached by Spark Connect alone.

    Args:
        conf: the properties that the user has given.

    Raises:
        SparkUnavailable: what this process has, or is told to use, is Spark Connect; says by what.
    """
    found = _connect_by(conf)
    if found:
        raise SparkUnavailable(
            f"Spark Connect ({found}) is not supported, since its clients have no SparkContext: do without it, and"
            " name the master URL of the cluster itself."
        )


def _connect_by(conf: Mapping[str, str]) -> str:
    if "spark.remote" in conf:
        return f"spark.remote={conf['spark.remote']}"
    if os.environ.get(_REMOTE):
        return f"{_REMOTE}={os.environ[_REMOTE]}"
    connect = sys.modules.get("pyspark.sql.connect.session")
    session = None if connect is None else connect.SparkSession._default_session
    there = session is not None and not getattr(session, "is_stopped", False)
    return "the session of this program" if there else ""


def lacking(session: SparkSession) -> str:
    """What a session lacks that a server would have given it: ``KEY=VALUE, KEY=VALUE``; empty if nothing.

    Raises:
        SparkUnavailable: it has Python workers end after every task, with which nothing works.
    """
    context: Any = session.sparkContext
    conf = dict(context.getConf().getAll())
    if conf.get(_REUSE, "true").lower() == "false":
        raise SparkUnavailable(
            f"the SparkSession of this program has {_REUSE}=false, with which a Python worker ends after each"
            " task: make the session without it."
        )
    ours = default_conf(str(context.master), Path(tempfile.gettempdir()))
    return ", ".join(f"{key}={ours[key]}" for key in _WORTH_HAVING if conf.get(key) != ours[key])
