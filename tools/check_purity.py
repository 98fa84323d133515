"""Imports every module of an installed package and refuses what came along: ``python -I tools/check_purity.py <import name>``.

The contracts of ``.importlinter`` are read from source text. This looks at what really happens: a dynamic import, or a
dependency that a dependency brings, is seen here and not there.
"""

from __future__ import annotations

import configparser
import importlib
import importlib.metadata
import pkgutil
import sys
from pathlib import Path

CONTRACTS = Path(__file__).resolve().parent.parent / ".importlinter"
# What a virtual environment may hold before anything is installed.
INSTALLERS = {"pip", "setuptools", "wheel"}
# Only packages whose lists are closed (no "*") can be held to them to the last module.
ANYTHING = "*"
# Nothing that a reusable package needs may bring one of these.
NEVER_INSTALLED = {"pyspark", "py4j"}


def allowed_imports(package: str) -> tuple[set[str], set[str]]:
    """Standard-library and third-party modules that the package's contract allows."""
    config = configparser.ConfigParser()
    config.read(CONTRACTS, encoding="utf-8")
    for section in config.values():
        if section.get("type") == "only" and section.get("package") == package:
            standard_library = section.get("standard_library", "").split()
            return set(standard_library), set(section.get("third_party", "").split())
    raise SystemExit(f"{CONTRACTS.name} has no contract of type `only` for {package}")


def import_every_module(package: str) -> None:
    root = importlib.import_module(package)
    for module in pkgutil.walk_packages(root.__path__, prefix=f"{package}."):
        importlib.import_module(module.name)


def modules_brought_along(package: str) -> set[str]:
    """Modules that importing the whole package loads beside its own and what its contract allows."""
    standard_library, third_party = allowed_imports(package)
    for name in (standard_library | third_party) - {ANYTHING}:
        importlib.import_module(name)
    before = set(sys.modules)
    import_every_module(package)
    loaded = {name for name in set(sys.modules) - before if name.partition(".")[0] != package}
    if ANYTHING in standard_library:
        allowed = sys.stdlib_module_names | third_party
        siblings = {name for name in loaded if name.startswith(("beam_runner_", "beam_spark_"))}
        return {name for name in siblings if name.partition(".")[0] not in allowed}
    return loaded


def undue_distributions(package: str) -> set[str]:
    """Installed distributions that the package must do without."""
    _, third_party = allowed_imports(package)
    installed = {
        found.name.lower().replace("_", "-") for found in importlib.metadata.distributions()
    }
    own = {name for name in installed if name.replace("-", "_") in third_party | {package}}
    strangers = {
        name for name in installed - own if name.startswith(("beam-runner-", "beam-spark-"))
    }
    if "apache_beam" not in third_party:
        strangers |= installed - own - INSTALLERS
    return strangers | (installed & NEVER_INSTALLED)


def main(package: str) -> int:
    undue = undue_distributions(package)
    if undue:
        print(f"{package} brings distributions it must do without: {', '.join(sorted(undue))}")
    brought = modules_brought_along(package)
    if brought:
        print(f"Importing {package} loads modules it must not: {', '.join(sorted(brought))}")
    if not (undue or brought):
        print(f"{package} is pure: every module imports, and nothing else came along.")
    return 1 if undue or brought else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
