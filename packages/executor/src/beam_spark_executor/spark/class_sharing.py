"""Java's class data sharing for Spark: Java maps a file with preloaded classes into memory.
Otherwise, loading and checking classes takes most of Spark's start.

The file is next to Spark's classes, so it has the same owner and lifetime. Java ignores a file that
was made for other classes or by another Java version.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from beam_spark_executor.spark.java_wheel import find_java_of_wheel

_DIGITS = 12
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""Java flags that suppress messages about sharing: a line for each class that Java can't share, and a
line if sharing is off.
"""


def find_shared_classes_file() -> Path:
    """Returns the path of the shared class file for this server's Java and Spark, whether or not the file exists."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else shutil.which("java") or find_java_of_wheel()
    jars = Path(_find_spark_home(), "jars").resolve()
    of = f"{Path(java or '').resolve()}\n{jars}"
    return jars / f"beam-classes-{hashlib.sha256(of.encode()).hexdigest()[:_DIGITS]}.jsa"


def make_archive_use_options(user_options: str) -> str:
    """Returns Java's options to map the shared class file; none if the file is missing, or if
    ``user_options`` configure sharing.
    """
    file = find_shared_classes_file()
    if re.search(r"Archive|-Xshare", user_options) or not file.is_file():
        return ""
    return f" -XX:SharedArchiveFile={file} {_QUIET}"


def make_archive_creation_options(file: Path) -> str:
    """Returns Java's options to write the shared class file at exit."""
    return f"-XX:ArchiveClassesAtExit={file} {_QUIET}"
