"""Spark's classes in a file that Java maps: most of what a start costs is Java reading and checking them one by one.

The file lies beside Spark's classes, so that it is whose these are, and goes where they go. Java itself refuses one that was made
of other classes or by another Java, and starts as it does without.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from beam_spark_executor.spark.java_wheel import java_of_wheel

_DIGITS = 12
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""Java tells each class that it can not share, and that it does not share at all."""


def shared_classes() -> Path:
    """The file for the Java and the Spark that a server here would start now, whether it is there or not."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else shutil.which("java") or java_of_wheel()
    jars = Path(_find_spark_home(), "jars").resolve()
    of = f"{Path(java or '').resolve()}\n{jars}"
    return jars / f"beam-classes-{hashlib.sha256(of.encode()).hexdigest()[:_DIGITS]}.jsa"


def to_share(user_options: str) -> str:
    """Java's options to map the file; none where there is no file, or ``user_options`` say what to do about such files."""
    file = shared_classes()
    if re.search(r"Archive|-Xshare", user_options) or not file.is_file():
        return ""
    return f" -XX:SharedArchiveFile={file} {_QUIET}"


def to_make(file: Path) -> str:
    """Java's options to write such a file when it ends."""
    return f"-XX:ArchiveClassesAtExit={file} {_QUIET}"
