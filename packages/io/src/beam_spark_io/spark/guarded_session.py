"""A Spark session for queries of clients: its SQL can't call Java methods, however the query spells the function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beam_runner_planner.table_specs import REFLECTION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def guard_session(session: SparkSession) -> SparkSession:
    """Returns a copy of a session, with its views and settings, but without the functions in
    `REFLECTION`.

    The copy takes a few milliseconds. The text of a query doesn't show all functions that it calls:
    ``IDENTIFIER('ref' || 'lect')`` is a function's name, too.
    """
    context: Any = session.sparkContext
    copy = session._jsparkSession.cloneSession()
    functions = copy.sessionState().functionRegistry()
    known = functions.listFunction()
    # One call returns all names, some hundreds of the form system.builtin.abs.
    for number, name in enumerate(known.mkString("\n").split("\n")):
        if name.rpartition(".")[2].strip("`").lower() in REFLECTION:
            functions.dropFunction(known.apply(number))
    return type(session)(context, copy)
