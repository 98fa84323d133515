"""Spark session for queries from clients, in which SQL functions that call arbitrary Java methods are removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beam_runner_planner.table_specs import REFLECTION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def create_guarded_session(session: SparkSession) -> SparkSession:
    """Returns a copy of a session, with its views and settings, but without the functions in
    `REFLECTION`.

    The copy takes a few milliseconds. A check of the query's text would not be enough, because a
    query can compute the name of a function: ``IDENTIFIER('ref' || 'lect')``.
    """
    context: Any = session.sparkContext
    copy = session._jsparkSession.cloneSession()
    functions = copy.sessionState().functionRegistry()
    known = functions.listFunction()
    # One call returns the names of all functions: several hundred, such as system.builtin.abs.
    for number, name in enumerate(known.mkString("\n").split("\n")):
        if name.rpartition(".")[2].strip("`").lower() in REFLECTION:
            functions.dropFunction(known.apply(number))
    return type(session)(context, copy)
