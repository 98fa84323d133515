"""Nox sessions with third-party software (Hadoop, Kafka, Airflow, stores, other SDKs, libraries).
``nox`` without arguments doesn't run them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import nox
from nox.command import CommandFailed

from tools.libraries import LEFT_OUT, LIBRARIES, ThirdPartyLibrary
from tools.nox_support import (
    MORE_FOR_TESTS,
    ROOT,
    SIDE_BY_SIDE,
    distribution_name,
    ensure_java,
    ensure_machines,
    install_requirements,
    list_sessions_to_run_first,
    read_group,
    require_maven,
    run_on_machines,
    run_pytest,
    run_python,
)
from tools.version_tables import OUTCOMES, PAGE, make_client_rows, replace_row


def install_azurite(session: nox.Session) -> dict[str, str]:
    """Installs the emulator of Azure's store; returns the variable of its folder, or nothing without npm."""
    folder = Path(session.create_tmp()) / "azurite"
    folder.mkdir(exist_ok=True)
    install = ("npm", "install", "--no-audit", "--no-fund", "--silent", "azurite@3")
    try:
        session.run(*install, "--prefix", str(folder), external=True)
    except CommandFailed:
        session.warn("NOT RUN: tests with Azure's store, because npm couldn't install Azurite")
        return {}
    return {"BEAM_AZURITE": str(folder)}


@nox.session(requires=["wheels"], default=False)
def clusters(session: nox.Session) -> None:
    """Tests Spark standalone on machines that are simulated by Linux namespaces (needs root), and that share only an S3 store. ``-- --gigabytes 4``, ``--rounds N`` for more, ``--store=folder``."""
    run_on_machines(session, "tests/clusters", "-s", *session.posargs)


@nox.session(requires=list_sessions_to_run_first("wheels"))
def clusters_part(session: nox.Session) -> None:
    """Runs embedded pipelines on the machines of `clusters`: bounded jobs through Spark's shuffle, a stream through moto's S3 server."""
    ensure_machines(session)
    selection = ("-k", "(exactly_once_on_a_cluster and embedded) or small or started_on_one")
    tests = ("tests/clusters/test_pipelines.py", "--store=moto", *selection)
    run_pytest(session, *tests, *session.posargs)


@nox.session(requires=list_sessions_to_run_first("environment"), venv_backend="none")
def updates_part(session: nox.Session) -> None:
    """Updates a running stream, kills the server at two steps of an update, and cuts two random streams by updates."""
    run_pytest(session, "tests/updates", *SIDE_BY_SIDE, "-m", "not slow", *session.posargs)
    if not session.posargs:
        few = ("--seed=41", "--streams=2", "--batch=3")
        run_python(session, "tests/updates/random_updates.py", *few)


@nox.session(requires=["wheels"], default=False)
def hdfs(session: nox.Session) -> None:
    """Tests HDFS as a store, with faults of its servers, and then runs the session `clusters` with HDFS instead of S3. Needs Maven, and root for the second part."""
    require_maven(session)
    ensure_java(session)
    tests = (*read_group("test"), *read_group(MORE_FOR_TESTS["executor"]))
    install_requirements(session, f"{distribution_name('executor')}[hdfs,stores]", *tests)
    run_pytest(session, "tests/hdfs", "-s")
    run_pytest(session, "tests/clusters", "-s", "--store=hdfs", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def sinks(session: nox.Session) -> None:
    """Kills and freezes processes below exactly-once sinks and queues: SQLite, files, Delta, Iceberg, Redis; Azure's store with npm; Kafka to Kafka, PostgreSQL and MariaDB with Maven. Tests outages, and old copies of state. ``-- --rounds N --seed S --kills N`` for more."""
    ensure_java(session)
    groups = ("test", "kafka", "postgresql", "sinks")
    requirements = [one for group in groups for one in read_group(group)]
    install_requirements(session, distribution_name("executor"), *requirements)
    azurite = install_azurite(session)
    run_pytest(session, "tests/sinks", "-s", *session.posargs, **azurite)
    if azurite:
        contracts = ("packages/storage/tests/stores/test_objects.py", "packages/io/tests/files")
        run_pytest(session, *contracts, "-k", "az", **azurite)


@nox.session(requires=["wheels"], default=False)
def bench_kafka(session: nox.Session) -> None:
    """Compares latency and throughput from Kafka to Kafka with Spark's Structured Streaming. ``-- --write`` writes the table. Needs Maven."""
    _run_kafka_benchmark(session, "kafka_latency")


@nox.session(requires=["wheels"], default=False)
def bench_kafka_kills(session: nox.Session) -> None:
    """Compares the throughput from Kafka to Kafka with and without kills. ``-- --minutes N --kill-every N --seed S``. Needs Maven."""
    _run_kafka_benchmark(session, "kafka_kills")


def _run_kafka_benchmark(session: nox.Session, name: str) -> None:
    require_maven(session)
    ensure_java(session)
    requirements = (distribution_name("executor") + "[kafka]", *read_group("test"))
    install_requirements(session, *requirements, compiled=True)
    session.run("python", f"tests/bench/{name}.py", *session.posargs, env={"PYTHONPATH": ""})


@nox.session(requires=["wheels"], default=False)
def kubernetes(session: nox.Session) -> None:
    """Runs the manifest's server on Spark's Kubernetes client: fabric8's mock API server, pods as processes; kills a pod and a server. Needs Maven."""
    require_maven(session)
    ensure_java(session)
    tests = (*read_group("test"), *read_group("deploy"))
    install_requirements(session, distribution_name("executor"), *tests)
    run_pytest(session, "tests/kubernetes", "-s", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def yarn(session: nox.Session) -> None:
    """Runs programs, streams and a server on YARN's own resource manager and node manager. Needs Maven and 8 GB of memory."""
    require_maven(session)
    ensure_java(session)
    install_requirements(session, distribution_name("executor"), *read_group("test"))
    run_pytest(session, "tests/yarn", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def kafka(session: nox.Session) -> None:
    """Reads a Kafka topic while workers, Java, the server and the broker are killed; tests refusals. Needs Maven. ``-- --rounds N --seed S`` for more."""
    require_maven(session)
    ensure_java(session)
    install_requirements(
        session,
        distribution_name("executor"),
        *read_group("test"),
        *read_group("kafka"),
    )
    run_pytest(session, "tests/kafka", "-s", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def airflow(session: nox.Session) -> None:
    """Runs a program with Airflow's Beam operator, which finds the runner by name; installs some 250 packages."""
    ensure_java(session)
    install_requirements(
        session,
        distribution_name("executor"),
        *read_group("test"),
        *read_group("airflow"),
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
        *read_group("test"),
        *read_group("kafka"),
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
    install_requirements(session, distribution_name("executor"), "uv", *read_group("test"))
    kept = ROOT / ".nox" / "sdks"
    results = OUTCOMES / "clients.xml"
    results.unlink(missing_ok=True)
    command = ("tests/clients", "-rs", f"--clients={kept}", f"--junitxml={results}")
    try:
        run_pytest(session, *command, *session.posargs)
    finally:
        for row in make_client_rows(results):
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
