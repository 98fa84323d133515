"""Sessions outside of a bare ``nox`` with third-party software: Hadoop, Kafka, Airflow, stores, SDKs
of other versions and languages, libraries.
"""

from __future__ import annotations

import shutil

import nox
from nox.command import CommandFailed

from tools.libraries import LEFT_OUT, LIBRARIES, ThirdPartyLibrary
from tools.nox_support import (
    MORE_FOR_TESTS,
    ROOT,
    dependency_group,
    distribution_name,
    ensure_java,
    ensure_machines,
    install_requirements,
    require_maven,
    run_on_machines,
    run_pytest,
    sessions_to_run_first,
)
from tools.version_tables import OUTCOMES, PAGE, client_rows, replace_row


@nox.session(requires=["wheels"], default=False)
def clusters(session: nox.Session) -> None:
    """Tests Spark standalone on namespace machines (needs root) that share only S3. ``-- --gigabytes 4``, ``--rounds N`` for more, ``--store=folder``."""
    run_on_machines(session, "tests/clusters", "-s", *session.posargs)


@nox.session(requires=sessions_to_run_first("wheels"))
def clusters_part(session: nox.Session) -> None:
    """Runs embedded pipelines on the machines of `clusters`: bounded jobs through Spark's shuffle, a stream through moto's S3 server."""
    ensure_machines(session)
    selection = ("-k", "(exactly_once_on_a_cluster and embedded) or small or started_on_one")
    tests = ("tests/clusters/test_pipelines.py", "--store=moto", *selection)
    run_pytest(session, *tests, *session.posargs)


@nox.session(requires=["wheels"], default=False)
def hdfs(session: nox.Session) -> None:
    """Tests Hadoop's servers: store contract, refusals, faults; then `clusters` with HDFS instead of S3. Needs Maven, and root for the second part."""
    require_maven(session)
    ensure_java(session)
    tests = (*dependency_group("test"), *dependency_group(MORE_FOR_TESTS["executor"]))
    install_requirements(session, f"{distribution_name('executor')}[hdfs,stores]", *tests)
    run_pytest(session, "tests/hdfs", "-s")
    run_pytest(session, "tests/clusters", "-s", "--store=hdfs", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def kafka(session: nox.Session) -> None:
    """Reads a Kafka topic while workers, Java, the server and the broker are killed; tests refusals. Needs Maven. ``-- --rounds N --seed S`` for more."""
    require_maven(session)
    ensure_java(session)
    install_requirements(
        session,
        distribution_name("executor"),
        *dependency_group("test"),
        *dependency_group("kafka"),
    )
    run_pytest(session, "tests/kafka", "-s", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def airflow(session: nox.Session) -> None:
    """Runs a program with Airflow's Beam operator, which finds the runner by name; installs some 250 packages."""
    ensure_java(session)
    install_requirements(
        session,
        distribution_name("executor"),
        *dependency_group("test"),
        *dependency_group("airflow"),
    )
    run_pytest(session, "tests/doors/test_airflow.py", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def java(session: nox.Session) -> None:
    """Runs pipelines of the Java SDK, Python pipelines with Java transforms, and a part of Java's runner tests. Needs Maven."""
    if shutil.which("mvn") is None or shutil.which("javac") is None:
        session.skip("NOT RUN: a JDK and Maven were not found: install openjdk-17-jdk and maven")
    install_requirements(
        session,
        distribution_name("executor"),
        *dependency_group("test"),
        *dependency_group("kafka"),
    )
    try:
        fetch = ("mvn", "-q", "-B", "-f", "tests/java/pom.xml", "dependency:go-offline")
        session.run(*fetch, external=True)
    except CommandFailed:
        session.skip("NOT RUN: Maven could not fetch the Java SDK, see above")
    run_pytest(session, "tests/java", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def clients(session: nox.Session) -> None:
    """Tests clients with other versions of the Python and Go SDKs in each environment; writes the second table of docs/reference/versions.md."""
    ensure_java(session)
    install_requirements(session, distribution_name("executor"), "uv", *dependency_group("test"))
    kept = ROOT / ".nox" / "sdks"
    results = OUTCOMES / "clients.xml"
    results.unlink(missing_ok=True)
    command = ("tests/clients", "-rs", f"--clients={kept}", f"--junitxml={results}")
    try:
        run_pytest(session, *command, *session.posargs)
    finally:
        for row in client_rows(results):
            session.log(", ".join(row))
            replace_row(PAGE, "clients", row, keys=2)


@nox.session(requires=["wheels"], default=False)
@nox.parametrize("library", [nox.param(one, id=one.name) for one in LIBRARIES])
def thirdparty(session: nox.Session, library: ThirdPartyLibrary) -> None:
    """Runs the tests of a third-party library on the server. ``-- --oracle`` runs them on Beam's own runners."""
    ensure_java(session)
    for name, reason in LEFT_OUT.items():
        session.warn(f"NOT RUN: {name}: {reason}")
    install_requirements(session, distribution_name("executor"), *library.needed)
    folder = ROOT / "tests" / "thirdparty"
    command = ("-c", str(folder / "pytest.ini"), "-p", "on_the_server", *library.tests, "-rfEs")
    with session.chdir(
        str(session.virtualenv.location)
    ):  # The tests can leave files in this folder
        arguments = (*command, *session.posargs)
        run_pytest(session, *arguments, PYTHONPATH=str(folder), BEAM_LIBRARY=library.name)
