"""Generated code for functions of Beam that read or make rows: those of ``GroupBy`` and ``Select``.

Beam's functions call a lambda for each field of each element. The functions are recognized by their
code objects, so that a function that isn't known runs unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import CodeType, FunctionType
from typing import Any

from apache_beam import pvalue
from apache_beam.transforms import core

from beam_runner_embedded.generated_code import compile_function, is_attribute_name

MapValues = Callable[[Iterable[Any]], list[Any]]
"""Function that takes values and returns the list of their results."""


def _find_lambda(function: Any, *variables: str) -> CodeType | None:
    """Returns the code object of the lambda in a function of Beam that uses exactly these variables;
    None if Beam has no such lambda.
    """
    for code in function.__code__.co_consts:
        is_lambda = isinstance(code, CodeType) and code.co_name == "<lambda>"
        if is_lambda and set(code.co_freevars) == set(variables):
            return code
    return None


_FIELD = _find_lambda(core._expr_to_callable, "expr")
_KEY = _find_lambda(core.GroupBy._key_func, "key_type", "key_exprs")
_KEY_TYPE = _find_lambda(core.GroupBy.__init__, "field_names")
_GROUPED = _find_lambda(core.GroupBy.expand, "self")
_AGGREGATED = _find_lambda(core._GroupAndAggregate.expand, "key_func", "value_func")
_AGGREGATED_VALUES = _find_lambda(core._GroupAndAggregate.expand, "value_exprs")
_SELECTED = _find_lambda(core.Select.expand, "self")


def make_row_mapper(function: Callable[..., Any]) -> MapValues | None:
    """Returns a function that takes values and returns the list of ``function(value)`` for each value;
    None if the function isn't one of Beam's functions for rows.
    """
    code = getattr(function, "__code__", None)
    if not isinstance(function, FunctionType) or code is None:
        return None
    variables = _read_variables(function)
    known: dict[str, Any] = {"tuple_new": tuple.__new__, "Row": pvalue.Row}
    try:
        if code == _AGGREGATED:
            result = _write_aggregation_code(variables["key_func"], variables["value_func"], known)
        elif code == _GROUPED:
            result = f"({_write_key_code(variables['self']._key_func(), known)}, x)"
        elif code == _SELECTED:
            result = _write_selection_code(variables["self"]._fields, known)
        else:
            return None
    except _UnknownExpression:
        return None
    lines = ("def map_rows(values):", f" return [{result} for x in values]")
    return compile_function("map_rows", lines, known)


class _UnknownExpression(Exception):
    """Raised if a part of a function isn't known, so that the function must run unchanged."""


def _read_variables(function: FunctionType) -> Mapping[str, Any]:
    """Returns the variables of enclosing functions that a function uses."""
    cells = function.__closure__ or ()
    return dict(zip(function.__code__.co_freevars, (c.cell_contents for c in cells), strict=True))


def _has_code(function: Any, code: CodeType | None) -> bool:
    return isinstance(function, FunctionType) and function.__code__ == code


def _find_field(expression: Any) -> str | None:
    """Returns the field that an expression reads; None if the expression is another function."""
    if not _has_code(expression, _FIELD):
        return None
    name = _read_variables(expression)["expr"]
    return name if is_attribute_name(name) else None


def _write_value_code(expression: Any, known: dict[str, Any]) -> str:
    """Returns the source code of an expression's value for the element ``x``."""
    field = _find_field(expression)
    if field is not None:
        return f"x.{field}"
    name = f"call{len(known)}"
    known[name] = expression
    return f"{name}(x)"


def _write_key_code(key_func: Any, known: dict[str, Any]) -> str:
    """Returns the source code of a key. A key of other expressions than fields is made by Beam."""
    if not _has_code(key_func, _KEY):
        return _write_value_code(key_func, known)
    variables = _read_variables(key_func)
    key_type, fields = variables["key_type"], list(map(_find_field, variables["key_exprs"]))
    names = _read_variables(key_type)["field_names"] if _has_code(key_type, _KEY_TYPE) else ()
    if not all(fields) or len(names) != len(fields):
        return _write_value_code(key_func, known)
    known["Key"] = core._dynamic_named_tuple("Key", names)
    return f"tuple_new(Key, ({''.join(f'x.{field}, ' for field in fields)}))"


def _write_aggregation_code(key_func: Any, value_func: Any, known: dict[str, Any]) -> str:
    if not _has_code(value_func, _AGGREGATED_VALUES):
        raise _UnknownExpression
    expressions = _read_variables(value_func)["value_exprs"]
    values = ", ".join(_write_value_code(expression, known) for expression in expressions)
    return f"({_write_key_code(key_func, known)}, [{values}])"


def _write_selection_code(fields: Any, known: dict[str, Any]) -> str:
    names = [name for name, _ in fields]
    if not all(map(is_attribute_name, names)) or len(set(names)) != len(names):
        raise _UnknownExpression
    values = (f"{name}={_write_value_code(expression, known)}" for name, expression in fields)
    return f"Row({', '.join(values)})"
