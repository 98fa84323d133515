"""Sessions with what others have made, beside a bare ``nox``: Hadoop, Kafka, Airflow, stores, SDKs of other versions and languages, libraries."""

from __future__ import annotations

import shutil

import nox
from nox.command import CommandFailed

from tools.libraries import LEFT_OUT, LIBRARIES, Library
from tools.nox_support import (
    MORE_FOR_TESTS,
    ROOT,
    distribution,
    group,
    install,
    need_java,
    need_machines,
    need_maven,
    needs,
    run_on_machines,
    run_pytest,
)
from tools.version_tables import OUTCOMES, PAGE, rows_of_clients, write_row


@nox.session(requires=["wheels"], default=False)
def clusters(session: nox.Session) -> None:
    """Spark standalone on machines of their own (namespaces: needs root), which share nothing but S3. ``-- --gigabytes 4``, ``--rounds N`` for more, ``--store=folder``."""
    run_on_machines(session, "tests/clusters", "-s", *session.posargs)


@nox.session(requires=needs("wheels"))
def clusters_part(session: nox.Session) -> None:
    """Whole pipelines on the machines of `clusters`, embedded: bounded ones by Spark's shuffle, a stream by a store of S3's protocol, moto."""
    need_machines(session)
    selection = ("-k", "(exactly_once_on_a_cluster and embedded) or small or started_on_one")
    tests = ("tests/clusters/test_pipelines.py", "--store=moto", *selection)
    run_pytest(session, *tests, *session.posargs)


@nox.session(requires=["wheels"], default=False)
def hdfs(session: nox.Session) -> None:
    """Hadoop's own servers: the contract of stores, refusals, faults; then as `clusters`, with HDFS in place of S3. Needs Maven, and root for the second."""
    need_maven(session)
    need_java(session)
    tests = (*group("test"), *group(MORE_FOR_TESTS["executor"]))
    install(session, f"{distribution('executor')}[hdfs,stores]", *tests)
    run_pytest(session, "tests/hdfs", "-s")
    run_pytest(session, "tests/clusters", "-s", "--store=hdfs", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def kafka(session: nox.Session) -> None:
    """A stream of a real Kafka's topic while workers, Java, the server and the broker are killed; refusals. Needs Maven. ``-- --rounds N --seed S`` for more."""
    need_maven(session)
    need_java(session)
    install(session, distribution("executor"), *group("test"), *group("kafka"))
    run_pytest(session, "tests/kafka", "-s", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def airflow(session: nox.Session) -> None:
    """Airflow's operator for Beam runs a program by the runner's name; some 250 packages."""
    need_java(session)
    install(session, distribution("executor"), *group("test"), *group("airflow"))
    run_pytest(session, "tests/doors/test_airflow.py", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def java(session: nox.Session) -> None:
    """Pipelines of the Java SDK, Python pipelines with Java transforms, and a part of Java's tests for runners. Needs Maven."""
    if shutil.which("mvn") is None or shutil.which("javac") is None:
        session.skip("NOT RUN: a JDK and Maven were not found: install openjdk-17-jdk and maven")
    install(session, distribution("executor"), *group("test"), *group("kafka"))
    try:
        fetch = ("mvn", "-q", "-B", "-f", "tests/java/pom.xml", "dependency:go-offline")
        session.run(*fetch, external=True)
    except CommandFailed:
        session.skip("NOT RUN: Maven could not fetch the Java SDK, see above")
    run_pytest(session, "tests/java", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def clients(session: nox.Session) -> None:
    """Clients with other versions of Python's and Go's SDK, through each environment: the second table of docs/versions.md."""
    need_java(session)
    install(session, distribution("executor"), "uv", *group("test"))
    kept = ROOT / ".nox" / "sdks"
    results = OUTCOMES / "clients.xml"
    results.unlink(missing_ok=True)
    command = ("tests/clients", "-rs", f"--clients={kept}", f"--junitxml={results}")
    try:
        run_pytest(session, *command, *session.posargs)
    finally:
        for row in rows_of_clients(results):
            session.log(", ".join(row))
            write_row(PAGE, "clients", row, keys=2)


@nox.session(requires=["wheels"], default=False)
@nox.parametrize("library", [nox.param(one, id=one.name) for one in LIBRARIES])
def thirdparty(session: nox.Session, library: Library) -> None:
    """The tests of a library of others, on the server. ``-- --oracle`` leaves their pipelines to Beam's own runners."""
    need_java(session)
    for name, reason in LEFT_OUT.items():
        session.warn(f"NOT RUN: {name}: {reason}")
    install(session, distribution("executor"), *library.needed)
    folder = ROOT / "tests" / "thirdparty"
    command = ("-c", str(folder / "pytest.ini"), "-p", "on_the_server", *library.tests, "-rfEs")
    with session.chdir(str(session.virtualenv.location)):  # where files may stay
        arguments = (*command, *session.posargs)
        run_pytest(session, *arguments, PYTHONPATH=str(folder), BEAM_LIBRARY=library.name)
