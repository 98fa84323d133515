"""Lineages: jobs that took over the journal of another job, one after the other.

The job that began the lineage owns the folder with the files of all jobs of the lineage. Only the
latest job of a lineage has a journal.
"""

from __future__ import annotations

import sqlite3

import attrs

LINEAGE_TABLE = """
    CREATE TABLE IF NOT EXISTS lineages (
        job_id TEXT PRIMARY KEY, predecessor TEXT NOT NULL UNIQUE, owner TEXT NOT NULL,
        generation INTEGER NOT NULL
    )
"""
"""SQL statement for the table of jobs with a predecessor. The table is not part of the schema, because
files of earlier versions lack it.
"""


@attrs.frozen
class Lineage:
    """Place of a job in its lineage (the chain of jobs in which each job replaced the previous
    job).

    Attributes:
        owner: ID of the job that began the lineage, whose folder has the files of the lineage.
        generation: number of jobs in the lineage before this job.
        predecessor: ID of the job that this job replaced; empty for the first job of a lineage.
    """

    owner: str
    generation: int = 0
    predecessor: str = ""


def read_lineage(connection: sqlite3.Connection, job_id: str) -> Lineage:
    """Returns the lineage of a job. A job without a predecessor begins its own lineage."""
    row = connection.execute(
        "SELECT owner, generation, predecessor FROM lineages WHERE job_id = ?", (job_id,)
    ).fetchone()
    return Lineage(job_id) if row is None else Lineage(*row)


def read_successor(connection: sqlite3.Connection, job_id: str) -> str:
    """Returns the ID of the job that replaced a job; empty if no job replaced it."""
    row = connection.execute(
        "SELECT job_id FROM lineages WHERE predecessor = ?", (job_id,)
    ).fetchone()
    return "" if row is None else str(row[0])


def add_successor(connection: sqlite3.Connection, job_id: str, successor: str) -> None:
    """Records that `successor` replaced a job, within the current transaction."""
    before = read_lineage(connection, job_id)
    connection.execute(
        "INSERT INTO lineages VALUES (?, ?, ?, ?)",
        (successor, job_id, before.owner, before.generation + 1),
    )


def remove_lineage(connection: sqlite3.Connection, job_id: str) -> None:
    """Removes the lineage of a job, whose journal is removed within the current transaction."""
    owner = read_lineage(connection, job_id).owner
    connection.execute("DELETE FROM lineages WHERE owner = ?", (owner,))
