"""Search in our sources for names of other distributions, such as Beam, and for their calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CallArguments:
    """Arguments of a call. A call with ``*`` or ``**`` can have any number of additional arguments."""

    positional: int
    keywords: frozenset[str]
    open: bool

    @classmethod
    def from_call_node(cls, node: ast.Call) -> CallArguments:
        """Returns the arguments of a call node."""
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        named = frozenset(keyword.arg for keyword in node.keywords if keyword.arg is not None)
        is_open = starred or len(named) < len(node.keywords)
        return cls(len(node.args), named, is_open)


@dataclass(frozen=True)
class NameUse:
    """Place that uses a name.

    Attributes:
        name: full name, as in ``apache_beam.runners.common.DoFnRunner``.
        place: file and line.
        call: arguments; None if the name isn't called.
        bound: whether the name is called on an instance, as through ``super()``.
    """

    name: str
    place: str
    call: CallArguments | None = None
    bound: bool = False


def find_uses_in_folder(folder: Path, distributions: frozenset[str]) -> Iterator[NameUse]:
    """Returns all uses of these import names in the sources below a folder, also through reexports of our modules."""
    trees = {
        path: ast.parse(path.read_text(encoding="utf-8"), str(path))
        for path in sorted(folder.rglob("src/**/*.py"))
    }
    handed_on: dict[str, str] = {}
    for path, tree in trees.items():
        handed_on |= {
            f"{_get_module_name(path)}.{alias.asname or alias.name}": f"{node.module}.{alias.name}"
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and not node.level
            if (node.module or "").partition(".")[0] in distributions
            for alias in node.names
        }
    for path, tree in trees.items():
        yield from _find_uses_in_tree(tree, path, distributions, handed_on)


def find_uses_in_text(text: str, path: Path, distributions: frozenset[str]) -> Iterator[NameUse]:
    """Yields all uses of these import names in the source text of a file."""
    yield from _find_uses_in_tree(ast.parse(text, str(path)), path, distributions, {})


def _find_uses_in_tree(
    tree: ast.Module, path: Path, distributions: frozenset[str], handed_on: Mapping[str, str]
) -> Iterator[NameUse]:
    reader = _UseCollector(path, distributions, handed_on)
    reader.visit(tree)
    yield from reader.uses


def _get_module_name(path: Path) -> str:
    """Returns the full name of a module below a folder ``src``."""
    parts = path.with_suffix("").parts
    return ".".join(parts[len(parts) - parts[::-1].index("src") :]).removesuffix(".__init__")


class _UseCollector(ast.NodeVisitor):
    """Syntax tree visitor of one file. If a function binds a name, this name isn't the imported
    name within the function.
    """

    def __init__(
        self, path: Path, distributions: frozenset[str], handed_on: Mapping[str, str]
    ) -> None:
        self.uses: list[NameUse] = []
        self._path = path
        self._distributions = distributions
        self._handed_on = handed_on
        self._imported: dict[str, str] = {}
        self._hidden: list[set[str]] = []
        self._bases: list[list[str]] = []

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.partition(".")[0] in self._distributions:
                target = alias.name if alias.asname else alias.name.partition(".")[0]
                self._imported[alias.asname or target] = target
                self._record_use(alias.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level:
            return
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            name = self._handed_on.get(name, name)
            if name.partition(".")[0] not in self._distributions:
                continue
            self._imported[alias.asname or alias.name] = name
            self._record_use(name, node)

    def visit_With(self, node: ast.With) -> None:
        """Skips ``with`` blocks that suppress ImportError, because their imports are optional."""
        if not any(_suppresses_import_errors(item.context_expr) for item in node.items):
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.Lambda) -> None:
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
        bound = {one.arg for one in every}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                bound.add(inner.id)
        self._hidden.append(bound)
        self.generic_visit(node)
        self._hidden.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]
    visit_Lambda = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._bases.append([name for base in node.bases if (name := self._full_name(base))])
        self.generic_visit(node)
        self._bases.pop()

    def visit_Call(self, node: ast.Call) -> None:
        name = self._full_name(node.func)
        if name is not None:
            self._record_use(name, node, CallArguments.from_call_node(node))
        elif (method := _find_super_method_name(node.func)) is not None and self._bases:
            bases = self._bases[-1]
            if len(bases) == 1:
                self._record_use(
                    f"{bases[0]}.{method}", node, CallArguments.from_call_node(node), bound=True
                )
        else:
            self.visit(node.func)
        for child in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.visit(child)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._full_name(node)
        if name is None:
            self.generic_visit(node)
        else:
            self._record_use(name, node)

    def _full_name(self, node: ast.expr) -> str | None:
        """Returns the full name of an imported name; None for other expressions."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or any(node.id in hidden for hidden in self._hidden):
            return None
        root = self._imported.get(node.id)
        return None if root is None else ".".join((root, *reversed(parts)))

    def _record_use(
        self,
        name: str,
        node: ast.stmt | ast.expr,
        call: CallArguments | None = None,
        *,
        bound: bool = False,
    ) -> None:
        self.uses.append(NameUse(name, f"{self._path}:{node.lineno}", call, bound))


def _suppresses_import_errors(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] == "suppress"
        and "ImportError" in map(ast.unparse, node.args)
    )


def _find_super_method_name(node: ast.expr) -> str | None:
    """Returns the name of the method in ``super().method``."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Call):
        return None
    function = node.value.func
    return node.attr if isinstance(function, ast.Name) and function.id == "super" else None
