"""A session for queries of others: one whose SQL calls no Java, however the function that would is spelt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beam_runner_planner.table_specs import REFLECTION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def guarded(session: SparkSession) -> SparkSession:
    """A copy of a session, with its views and settings, that does not know `REFLECTION`; costs some milliseconds.

    The text of a query does not tell all that it calls: ``IDENTIFIER('ref' || 'lect')`` is a function's name, too.
    """
    context: Any = session.sparkContext
    copy = session._jsparkSession.cloneSession()
    functions = copy.sessionState().functionRegistry()
    known = functions.listFunction()
    # One call for all names, of which there are some hundreds, of the form system.builtin.abs.
    for number, name in enumerate(known.mkString("\n").split("\n")):
        if name.rpartition(".")[2].strip("`").lower() in REFLECTION:
            functions.dropFunction(known.apply(number))
    return type(session)(context, copy)
