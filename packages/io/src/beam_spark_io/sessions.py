"""The Spark session of a program, if it has one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_here() -> SparkSession | None:
    """The session that runs in this process, if there is one: the caller's thread's, else any.

    Imports nothing: where PySpark has not been imported there is no session.
    """
    sql, core = sys.modules.get("pyspark.sql.session"), sys.modules.get("pyspark")
    if sql is None or core is None:
        return None
    context = core.SparkContext._active_spark_context
    if context is None:
        return None
    active = sql.SparkSession.getActiveSession() or sql.SparkSession._instantiatedSession
    # The last one may be of a context that was stopped.
    usable = active is not None and active.sparkContext is context
    session: SparkSession = active if usable else sql.SparkSession(context)
    return session
