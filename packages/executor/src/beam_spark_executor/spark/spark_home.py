"""Lookup of Spark's folder and of Java's version without an import of PySpark and without a start of
Java, so that Spark's Java process starts sooner.
"""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

_FINDER = "find_spark_home.py"
"""PySpark's module that finds Spark's folder. It also runs as a script, so it imports nothing of PySpark."""


def find_spark_home() -> str:
    """Returns the folder of Spark: ``SPARK_HOME``, or the folder in which PySpark finds Spark.

    Raises:
        ModuleNotFoundError: PySpark isn't installed.
    """
    if "SPARK_HOME" in os.environ:
        return os.environ["SPARK_HOME"]
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    file = Path(package.origin).with_name(_FINDER)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    finder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(finder)
    return str(finder._find_spark_home())


def read_java_version(java: str) -> int | None:
    """Returns the major version in the file ``release`` of a Java installation; None if the
    installation has no such file.

    Args:
        java: path of the ``java`` program.
    """
    try:
        text = Path(java).resolve().parents[1].joinpath("release").read_text()
    except (OSError, IndexError, UnicodeDecodeError):
        return None
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    return None if found is None else int(found[1])
