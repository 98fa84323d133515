"""Imports every module of an installed package and refuses forbidden imports: ``python -I
tools/check_purity.py <import name>``.

import-linter checks the contracts of ``.importlinter`` only in source text. This tool checks the
modules that Python really imports, so it also finds dynamic imports and indirect dependencies.
"""

from __future__ import annotations

import configparser
import importlib
import importlib.metadata
import importlib.util
import re
import sys
from pathlib import Path

CONTRACTS = Path(__file__).resolve().parent.parent / ".importlinter"
# Distributions of an empty virtual environment.
INSTALLERS = {"pip", "setuptools", "wheel"}
ANYTHING = "*"
OURS = ("beam_runner_", "beam_spark_")
SPARK = {"py4j", "pyspark"}


def find_allowed_imports(package: str) -> tuple[set[str], set[str]]:
    """Returns the standard-library and third-party modules that the package's contract allows."""
    config = configparser.ConfigParser()
    config.read(CONTRACTS, encoding="utf-8")
    for section in config.values():
        if section.get("type") == "only" and section.get("package") == package:
            standard_library = section.get("standard_library", "").split()
            return set(standard_library), set(section.get("third_party", "").split())
    raise SystemExit(f"{CONTRACTS.name} has no contract of type `only` for {package}")


def find_allowed_packages(package: str) -> set[str]:
    """Returns the third-party packages that the package's contract allows, completely or in part."""
    return {name.partition(".")[0] for name in find_allowed_imports(package)[1]}


def find_layers_below(package: str) -> set[str]:
    """Returns the dotted names of our modules that the package may import, directly or indirectly."""
    below = {name for name in find_allowed_imports(package)[1] if name.startswith(OURS)}
    return below.union(*(find_layers_below(name.partition(".")[0]) for name in below))


def list_module_names(package: str) -> list[str]:
    """Returns the names of all modules of the package from its files, without imports."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{package} is not installed as a package")
    root = Path(spec.submodule_search_locations[0])
    paths = [path.relative_to(root.parent).with_suffix("") for path in sorted(root.rglob("*.py"))]
    return [".".join(path.parts).removesuffix(".__init__") for path in paths]


def find_forbidden_modules(package: str) -> set[str]:
    """Returns the forbidden modules that an import of all modules of the package loads.

    A package that may import the complete standard library may load any module except other layers.
    """
    standard_library, third_party = find_allowed_imports(package)
    closed = ANYTHING not in standard_library
    for name in standard_library | third_party if closed else ():
        importlib.import_module(name)
    names = list_module_names(package)
    before = set(sys.modules)
    for name in names:
        importlib.import_module(name)
    brought = {
        name for name in set(sys.modules) - before if not is_same_or_nested_module(name, package)
    }
    below = find_layers_below(package)
    ours = {name for name in brought if name.startswith(OURS)}
    undue = {name for name in ours if not any(is_same_or_nested_module(name, one) for one in below)}
    return undue | (brought - ours if closed else set())


def is_same_or_nested_module(name: str, of: str) -> bool:
    """Returns True if a module is another module, or one of its submodules or parents."""
    return f"{name}.".startswith(f"{of}.") or f"{of}.".startswith(f"{name}.")


def find_unneeded_distributions(package: str) -> set[str]:
    """Returns the installed distributions that the package must not need."""
    below = {name.partition(".")[0] for name in find_layers_below(package)}
    allowed = below.union(*map(find_allowed_packages, (package, *below)))
    installed = {
        found.name.lower().replace("-", "_") for found in importlib.metadata.distributions()
    }
    ours = {name for name in installed if name.startswith(OURS)}
    spark = set() if "pyspark" in allowed else installed & SPARK
    undue = (ours | spark) - allowed - {package}
    if "apache_beam" not in allowed:
        undue |= installed - find_distributions_of_requirements(allowed) - {package} - INSTALLERS
    return undue


def find_distributions_of_requirements(distributions: set[str]) -> set[str]:
    """Returns the installed distributions that these distributions need, by the names of their modules."""
    found: set[str] = set()
    waiting = list(distributions)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        try:
            needed = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        names = (re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0] for text in needed)
        waiting += [one.lower().replace("-", "_") for one in names]
    return found


def main(package: str) -> int:
    undue = find_unneeded_distributions(package)
    if undue:
        print(f"{package} brings distributions it must do without: {', '.join(sorted(undue))}")
    brought = find_forbidden_modules(package)
    if brought:
        print(f"Importing {package} loads modules it must not: {', '.join(sorted(brought))}")
    if not (undue or brought):
        print(f"{package} is pure: every module imports, and nothing else came along.")
    return 1 if undue or brought else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
