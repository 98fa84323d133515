"""Explanations of permanent table errors (which a retry can't fix), found by the error texts of Spark and Java."""

from __future__ import annotations

import re

from beam_runner_planner.table_specs import STAGING

_NO_DRIVER = re.compile(
    r"java\.sql\.SQLException: No suitable driver|ClassNotFoundException: \S*[Dd]river\S*"
)
_NO_FOLDER = re.compile(
    r"(java\.io\.IOException: Mkdirs failed to create|ParentNotDirectoryException: [^:]*:)"
    rf" (?P<path>\S+?)(/{STAGING}|/_temporary|\s|$)"
)


def explain_permanent_error(text: str) -> str:
    """Returns an explanation with a fix for a permanent error; empty for other errors."""
    if found := _NO_DRIVER.search(text):
        return (
            f"Spark has no JDBC driver for this database ({found[0]}): start the server with"
            " --spark-conf=spark.jars.packages=GROUP:ARTIFACT:VERSION, which names the driver"
        )
    if found := _NO_FOLDER.search(text):
        return (
            f"Spark can't create files in {found['path']}: check the path, the free space and the"
            " permissions of the user that runs Spark"
        )
    return ""
