"""Checks the used names and signatures of Beam and PySpark in other versions, in wheels or installed
packages::

    python -m tools.check_versions apache_beam-2.72.0-*.whl apache_beam-2.77.0-*.whl /venv/lib/python3.11/site-packages

The tool imports nothing, so a version takes one second. Names that source text doesn't show count
as present: attributes of instances, names that a module creates at run time, and calls with ``*``.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools.fetch_minors import fetch_missing_wheels
from tools.used_names import CallArguments, NameUse, find_uses_in_folder

SOURCES = Path(__file__).resolve().parent.parent / "packages"
DISTRIBUTIONS = frozenset({"apache_beam", "pyspark"})
_GENERATED = "_pb2"
# In serialized descriptors, a letter that could be part of the preceding escape sequence is escaped.
_ESCAPED = re.compile(r"\\x([4-7][0-9a-f])")
_MOST_STEPS = 20
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class FoundDefinition:
    """Definition that was found in source text, with its module and, for a class member, its class."""

    node: Definition
    module: str
    owner: ast.ClassDef | None = None


class MissingNameError(Exception):
    """Raised if a name doesn't exist."""


class VersionSources:
    """Sources of one version of a distribution.

    Args:
        name: name for messages.
        read: function from a path in the distribution to the text of the file; None if the file
            doesn't exist.
        exists: function that returns whether a folder, or a file with any suffix, has a path.
    """

    def __init__(
        self, name: str, read: Callable[[str], str | None], exists: Callable[[str], bool]
    ) -> None:
        self.name = name
        self._read = read
        self._exists = exists
        self._modules: dict[str, ModuleNames | None] = {}

    def module(self, name: str) -> ModuleNames | None:
        """Returns a module; None without source text."""
        if name not in self._modules:
            path = name.replace(".", "/")
            text = self._read(f"{path}.py")
            package = text is None
            if package:
                text = self._read(f"{path}/__init__.py")
            self._modules[name] = None if text is None else ModuleNames(name, text, package=package)
        return self._modules[name]

    def find_problem(self, use: NameUse) -> str | None:
        """Returns the problem of a use in this version."""
        try:
            found = self._find_definition(use.name)
        except MissingNameError as missing:
            return str(missing)
        if found is None or use.call is None:
            return None
        return self._find_signature_mismatch(found, use.call, bound=use.bound)

    def _find_definition(self, name: str) -> FoundDefinition | None:
        """Returns the definition of a full name; None if the name exists, or can exist, without a definition."""
        parts = name.split(".")
        for count in range(len(parts), 0, -1):
            module = self.module(".".join(parts[:count]))
            if module is not None:
                return self._find_in_module(module, parts[count:])
            if self._exists("/".join(parts[:count])):
                return None  # Module is compiled, without source text
        raise MissingNameError(f"no module {name}")

    def _find_in_module(
        self, module: ModuleNames, names: list[str], steps: int = 0
    ) -> FoundDefinition | None:
        if not names or steps > _MOST_STEPS:
            return None
        first, *rest = names
        if _GENERATED in module.name:
            if first not in _ESCAPED.sub(lambda found: chr(int(found[1], 16)), module.text):
                raise MissingNameError(f"no {first} in {module.name}")
            return None
        known = module.names.get(first)
        if known is None:
            inner = f"{module.name}.{first}"
            if self.module(inner) is not None:
                return self._find_definition(".".join((inner, *rest)))
            if self._exists(inner.replace(".", "/")):
                return None
            return self._find_in_star_imports(module, names, steps)
        if isinstance(known, str):
            if known.partition(".")[0] not in DISTRIBUTIONS:
                return None
            return self._find_definition(".".join((known, *rest)))
        if isinstance(known, ast.Assign) and isinstance(known.value, ast.Attribute | ast.Name):
            return self._find_in_module(
                module, [*ast.unparse(known.value).split("."), *rest], steps + 1
            )
        if isinstance(known, ast.ClassDef) and rest:
            return self._find_member(FoundDefinition(known, module.name), rest[0])
        return FoundDefinition(known, module.name) if isinstance(known, Definition) else None

    def _find_in_star_imports(
        self, module: ModuleNames, names: list[str], steps: int
    ) -> FoundDefinition | None:
        for star in module.stars:
            other = self.module(star)
            if other is None:
                return None
            try:
                self._find_in_module(other, names[:1], steps + 1)
            except MissingNameError:
                continue
            return self._find_in_module(other, names, steps + 1)
        if module.makes_names:
            return None
        raise MissingNameError(f"no {names[0]} in {module.name}")

    def _find_member(
        self, owner: FoundDefinition, name: str, steps: int = 0
    ) -> FoundDefinition | None:
        """Returns a member of a class or of its bases; None if a member can exist that source text doesn't show."""
        assert isinstance(owner.node, ast.ClassDef)
        if steps > _MOST_STEPS or owner.node.decorator_list or owner.node.keywords:
            return None
        known = dict(_iterate_bindings(owner.node.body, owner.module))
        if name in known:
            node = known[name]
            return (
                FoundDefinition(node, owner.module, owner.node)
                if isinstance(node, Definition)
                else None
            )
        for base in self._base_classes(owner):
            if base is None:
                return None
            try:
                return self._find_member(base, name, steps + 1)
            except MissingNameError:
                continue
        if name.startswith("__"):
            return None  # Every class inherits the members of object
        raise MissingNameError(f"no {name} in {owner.module}.{owner.node.name}")

    def _base_classes(self, owner: FoundDefinition) -> Iterator[FoundDefinition | None]:
        """Yields the base classes of a class; None for each unknown base."""
        assert isinstance(owner.node, ast.ClassDef)
        module = self.module(owner.module)
        assert module is not None
        for base in owner.node.bases:
            text = ast.unparse(base)
            if text == "object":
                continue
            try:
                found = self._find_in_module(module, text.split("."))
            except MissingNameError:
                found = None
            is_class = found is not None and isinstance(found.node, ast.ClassDef)
            yield found if is_class else None

    def _find_signature_mismatch(
        self, found: FoundDefinition, call: CallArguments, *, bound: bool
    ) -> str | None:
        """Returns why a call doesn't match a signature."""
        node, label = found.node, f"{found.module}.{found.node.name}"
        skip = bound
        if isinstance(node, ast.ClassDef):
            if node.decorator_list:
                return None
            init = self._find_member(found, "__init__")
            if init is None or not isinstance(init.node, ast.FunctionDef):
                return None
            node, skip = init.node, True
        elif found.owner is not None:
            label = f"{found.module}.{found.owner.name}.{node.name}"
            decorators = {ast.unparse(one) for one in node.decorator_list}
            if "property" in decorators:
                return None
            skip = "staticmethod" not in decorators and (bound or "classmethod" in decorators)
        problem = _find_argument_mismatch(node.args, call, skip=skip)
        return None if problem is None else f"{label}({ast.unparse(node.args)}): {problem}"


def _find_argument_mismatch(
    arguments: ast.arguments, call: CallArguments, *, skip: bool
) -> str | None:
    positional = [one.arg for one in (*arguments.posonlyargs, *arguments.args)][skip:]
    keyword_only = [one.arg for one in arguments.kwonlyargs]
    if call.positional > len(positional) and arguments.vararg is None and not call.open:
        return f"takes {len(positional)} positional arguments, is given {call.positional}"
    unknown = call.keywords - {*positional[call.positional :], *keyword_only}
    if unknown and arguments.kwarg is None:
        return f"does not take {', '.join(sorted(unknown))}"
    if call.open:
        return None
    needed = positional[: len(positional) - len(arguments.defaults)][call.positional :]
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        needed += [one.arg] if default is None else []
    lacking = [name for name in needed if name not in call.keywords]
    return f"is not given {', '.join(lacking)}" if lacking else None


class ModuleNames:
    """Names of a module. The value is a definition, another node, or the full name of an import."""

    def __init__(self, name: str, text: str, *, package: bool) -> None:
        self.name = name
        self.text = text
        self._package = package

    @cached_property
    def names(self) -> dict[str, ast.AST | str]:
        """Final binding of each name in the module."""
        return {k: v for k, v in self._bound_names if k != "*"}

    @cached_property
    def stars(self) -> list[str]:
        """Modules from which this module imports all names (``from x import *``)."""
        return [value for key, value in self._bound_names if key == "*" and isinstance(value, str)]

    @cached_property
    def makes_names(self) -> bool:
        """Whether the module can have names that no statement binds."""
        return "__getattr__" in self.names or "globals()" in self.text

    @cached_property
    def _bound_names(self) -> list[tuple[str, ast.AST | str]]:
        here = self.name if self._package else self.name.rpartition(".")[0]
        return list(_iterate_bindings(ast.parse(self.text).body, here))


def _iterate_bindings(
    body: Iterable[ast.stmt], package: str
) -> Iterator[tuple[str, ast.AST | str]]:
    """Yields the names that statements bind, also in branches."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node
            case ast.Import():
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    yield (alias.asname, alias.name) if alias.asname else (first, first)
            case ast.ImportFrom():
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                source = ".".join([*parents, *filter(None, [node.module])])
                source = source if node.level else str(node.module)
                for alias in node.names:
                    full = source if alias.name == "*" else f"{source}.{alias.name}"
                    yield alias.asname or alias.name, full
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    for inner in ast.walk(target):
                        if isinstance(inner, ast.Name):
                            yield inner.id, node
            case _:
                for field in ("body", "orelse", "finalbody"):
                    yield from _iterate_bindings(getattr(node, field, ()), package)
                for handler in getattr(node, "handlers", ()):
                    yield from _iterate_bindings(handler.body, package)


def open_version(path: Path) -> VersionSources:
    """Returns the version at a path: a wheel, or the folder of an unpacked package."""
    if path.is_dir():
        root = path.parent

        def read(name: str) -> str | None:
            file = root / name
            return file.read_text(encoding="utf-8") if file.is_file() else None

        return VersionSources(
            str(path), read, lambda place: (root / place).is_dir() or any(root.glob(f"{place}.*"))
        )
    archive = zipfile.ZipFile(path)
    names = set(archive.namelist())
    return VersionSources(
        path.name,
        lambda name: archive.read(name).decode() if name in names else None,
        lambda place: any(name.startswith((f"{place}/", f"{place}.")) for name in names),
    )


def get_distribution_name(path: Path) -> str:
    """Returns the import name of a wheel or a folder, derived from its file name."""
    return path.name.partition("-")[0]


def _packages_in(path: Path) -> list[Path]:
    """Returns the packages in a site-packages folder; any other path unchanged."""
    return [found for name in sorted(DISTRIBUTIONS) if (found := path / name).is_dir()] or [path]


def main(arguments: list[str]) -> int:
    """Checks each version; returns 1 if there is a problem."""
    parser = argparse.ArgumentParser(
        description="Names and signatures that we use, in other versions."
    )
    parser.add_argument("paths", nargs="*", help="wheels, or folders of packages")
    parser.add_argument(
        "--minors", metavar="FOLDER", help="fetches each minor version of Beam into it"
    )
    given = parser.parse_args(arguments)
    paths = [
        *given.paths,
        *(map(str, fetch_missing_wheels(Path(given.minors))) if given.minors else ()),
    ]
    uses = set(find_uses_in_folder(SOURCES, DISTRIBUTIONS)) if paths else set()
    wrong = 0
    for path in (found for name in paths for found in _packages_in(Path(name))):
        version = open_version(path)
        wanted = [use for use in uses if use.name.partition(".")[0] == get_distribution_name(path)]
        complaints = {(use.place, said) for use in wanted if (said := version.find_problem(use))}
        for place, said in sorted(complaints):
            print(f"{version.name}: {said}, used in {place}")
        print(f"{version.name}: {len({use.name for use in wanted})} names, {len(complaints)} wrong")
        wrong += len(complaints)
    return 1 if wrong or not paths else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
