"""Lookup of the program's Spark session."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def find_session() -> SparkSession | None:
    """Returns a Spark session of this process, preferably of the calling thread; None if no session
    exists.

    The function imports nothing. If PySpark isn't imported yet, no session exists.
    """
    sql, core = sys.modules.get("pyspark.sql.session"), sys.modules.get("pyspark")
    if sql is None or core is None:
        return None
    context = core.SparkContext._active_spark_context
    if context is None:
        return None
    active = sql.SparkSession.getActiveSession() or sql.SparkSession._instantiatedSession
    # The default session can belong to a context that was stopped.
    usable = active is not None and active.sparkContext is context
    session: SparkSession = active if usable else sql.SparkSession(context)
    return session
