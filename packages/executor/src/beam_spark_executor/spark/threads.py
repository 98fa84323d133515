"""Threads that run Spark jobs of their own, in every version of PySpark."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.util import InheritableThread

# PySpark 3.5 knows no threads of a session.
_KNOWS_SESSION = "session" in inspect.signature(InheritableThread).parameters


def job_thread(
    session: SparkSession, name: str, run: Callable[..., None], *arguments: Any
) -> InheritableThread:
    """A daemon thread, not yet started, whose job group and scheduler pool are its own.

    Args:
        session: with whose properties it begins.
        name: its name.
        run: what it runs.
        arguments: for ``run``.
    """
    of_session = {"session": session} if _KNOWS_SESSION else {}
    return InheritableThread(run, args=arguments, name=name, daemon=True, **of_session)
