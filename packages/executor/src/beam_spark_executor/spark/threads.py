"""Threads that run Spark jobs of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.util import InheritableThread


def job_thread(name: str, run: Callable[..., None], *arguments: Any) -> InheritableThread:
    """A daemon thread, not yet started, whose job group and scheduler pool are its own; it runs ``run`` with ``arguments``."""
    return InheritableThread(run, args=arguments, name=name, daemon=True)
