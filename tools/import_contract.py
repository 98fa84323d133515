"""Contract for import-linter: a package imports only listed and declared modules.

import-linter's own contracts forbid listed modules. This contract permits only listed modules, so
that no new import passes unnoticed. The package's ``pyproject.toml`` must declare each third-party
import, too.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

# Names of distributions that differ from their import name, by import name.
DISTRIBUTIONS = {
    "apache_beam": "apache-beam",
    "confluent_kafka": "confluent-kafka",
    "google": "protobuf",
    "grpc": "grpcio",
    "hdfs_native": "hdfs-native",
    "openlineage": "openlineage-python",
    "opentelemetry": "opentelemetry-sdk",
}
_OURS = ("beam_runner_", "beam_spark_")

ANYTHING = "*"


def get_distribution_name(root: str) -> str:
    """Returns the name of the distribution that contains a top-level module."""
    return root.replace("_", "-") if root.startswith(_OURS) else DISTRIBUTIONS.get(root, root)


def find_declared_distributions(pyproject: Path, *, with_extras: bool = False) -> set[str]:
    """Returns the distributions that a package needs at run time, with its extras on request.

    Extras count only on request, because only a few modules import an extra. Plug-ins that are
    found by entry points aren't included.
    """
    project = tomllib.loads(pyproject.read_text())["project"]
    requirements = list(project.get("dependencies", []))
    if with_extras:
        for more in project.get("optional-dependencies", {}).values():
            requirements += more
    return {re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0].lower() for text in requirements}


class OnlyContract(Contract):
    """Contract that every import of ``package`` is listed and declared.

    Options: ``package``, its import name; ``pyproject``, path of its ``pyproject.toml``;
    ``standard_library``, allowed modules of the standard library, ``*`` for all; ``third_party``,
    import names of other allowed packages or of parts of them. ``__future__`` and the package
    itself are always allowed.
    """

    type_name = "only"

    # import-linter replaces these fields with parsed values, so their type is Any.
    package: Any = fields.StringField()
    pyproject: Any = fields.StringField()
    standard_library: Any = fields.SetField(fields.StringField(), required=False, default=set())
    third_party: Any = fields.SetField(fields.StringField(), required=False, default=set())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        problems = self._find_unlisted_declarations()
        for importer in sorted(self._own_modules(graph)):
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                reason = self._explain_forbidden_import(imported)
                if reason:
                    for detail in graph.get_import_details(importer=importer, imported=imported):
                        line, text = detail["line_number"], detail["line_contents"]
                        problems.append(f"{importer}:{line}: `{text}`: {reason}")
        return ContractCheck(kept=not problems, metadata={"problems": problems})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for problem in check.metadata["problems"]:
            output.print_error(problem)
        output.new_line()

    def _own_modules(self, graph: ImportGraph) -> set[str]:
        if self.package not in graph.modules:
            raise ValueError(f"Package {self.package!r} does not exist.")
        return {self.package, *graph.find_descendants(self.package)}

    def _distributions(self) -> set[str]:
        roots = {name.partition(".")[0] for name in self.third_party}
        return set(map(get_distribution_name, roots))

    def _find_unlisted_declarations(self) -> list[str]:
        undue = find_declared_distributions(Path(self.pyproject)) - self._distributions()
        return [
            f"{self.pyproject}: declares `{name}`, on which {self.package} may not depend"
            for name in sorted(undue)
        ]

    def _explain_forbidden_import(self, imported: str) -> str:
        """Returns why ``imported`` is not allowed; empty if it is allowed."""
        root = imported.partition(".")[0]
        if root in (self.package, "__future__"):
            return ""
        if root in sys.stdlib_module_names:
            allowed = {root, ANYTHING} & self.standard_library
            return "" if allowed else f"{self.package} may not import `{root}`"
        if not any(f"{imported}.".startswith(f"{name}.") for name in self.third_party):
            parts = [name for name in sorted(self.third_party) if name.startswith(f"{root}.")]
            only = f", only `{'`, `'.join(parts)}`" if parts else ""
            return f"{self.package} may not import `{imported if parts else root}`{only}"
        distribution = get_distribution_name(root)
        if distribution not in find_declared_distributions(Path(self.pyproject), with_extras=True):
            return f"`{distribution}` is not declared in {self.pyproject}"
        return ""
