"""Nox sessions that take long, or that write measurements and pictures. CI and ``nox`` without arguments don't run them."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

import nox
from nox.command import CommandFailed

from tools.nox_support import (
    CLUSTER,
    CONSTRAINTS,
    HELM,
    KILLS_ON_A_CLUSTER,
    ON_A_CLUSTER,
    ONLY_ON_LANES,
    OUTAGES_BEYOND_THE_LIMIT,
    PACKAGES,
    RELEASE,
    ROOT,
    SIDE_BY_SIDE,
    STREAMS,
    WHEELS,
    WITHOUT_A_STORE,
    distribution_name,
    ensure_chromium,
    ensure_java,
    install_requirements,
    read_group,
    read_project_table,
    run_beam_test_suites,
    run_on_a_cluster,
    run_on_plain_processes,
    run_outages,
    run_pytest,
    run_python,
)
from tools.version_cells import CELLS, CHECKS, HEADS, VersionCell, install_cell, list_versions
from tools.version_tables import OUTCOMES, PAGE, format_outcome_cell, replace_row


@nox.session(requires=["wheels"], default=False)
def damages(session: nox.Session) -> None:
    """Damages the journal and the job list of a stopped server 1,200 times each, and checks that the server detects each damage. CI runs a part."""
    install_requirements(session, distribution_name("executor"), *read_group("test"))
    count = os.environ.get("BEAM_DAMAGES", "1200")
    suites = ("driver/tests/ledger/test_damage.py", "jobservices/tests/test_damages.py")
    tests = (*(f"packages/{suite}" for suite in suites), "-s", *session.posargs)
    run_pytest(session, *tests, BEAM_DAMAGES=count)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def pipelines(session: nox.Session) -> None:
    """Runs pipelines on servers on Spark, some in parallel. CI runs most of them on plain processes and a part on Spark."""
    selection = (f"--ignore={CLUSTER}", "--promised-times", *session.posargs)
    run_pytest(session, "tests/pipelines", *SIDE_BY_SIDE, *selection)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def plain_all(session: nox.Session) -> None:
    """Runs pipelines on servers on plain processes, each in all environments; CI runs a fixed part."""
    run_on_plain_processes(session, *session.posargs)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def bulk(session: nox.Session) -> None:
    """Runs pipelines whose stages can run together as one Spark job (a section) in this way, on ``local[*]``. A failed part doesn't stop the other three parts.

    The parts are: ``tests/pipelines`` without streams and lane tests; Beam's suites with ``--bulk
    always``; two files of pipelines without a store; and 300 random pipelines compared with the
    oracle. No part runs over LOOPBACK, whose only interpreter has no sections. ``-- ARGUMENTS`` go
    to the first part.
    """
    left_out = (
        *(f"--ignore={file}" for file in (CLUSTER, *STREAMS)),
        *(f"--deselect=tests/pipelines/{test}" for test in ONLY_ON_LANES),
    )
    spanned = ("-k", "not LOOPBACK")
    side_by_side = ("tests/pipelines", *SIDE_BY_SIDE, *left_out, *spanned)
    random = ("tests/differential/differential.py", "--bulk=always", "--environment=embedded")
    parts: tuple[Callable[[], object], ...] = (
        lambda: run_pytest(session, *side_by_side, "--bulk=always", *session.posargs),
        lambda: run_pytest(session, *WITHOUT_A_STORE, *SIDE_BY_SIDE, *spanned, "--data-dir=none"),
        lambda: run_beam_test_suites(
            session, "-k", "default and not other_client_options", "--bulk=always"
        ),
        lambda: run_python(session, *random, "--pipelines=300", "--streams=0"),
    )
    failed = []
    for number, part in enumerate(parts, 1):
        try:
            part()
        except CommandFailed:
            failed.append(number)
    if failed:
        session.error(f"failed: parts {failed} of {len(parts)}")


@nox.session(requires=["wheels"], default=False)
def hostile(session: nox.Session) -> None:
    """Sends 20,000 mutated pipelines and 100,000 hostile requests; CI sends a part. ``-- --requests N --seed S --hypothesis-seed=N`` changes them."""
    install_requirements(session, distribution_name("executor"), *read_group("test"))
    examples = os.environ.get("BEAM_HOSTILE_EXAMPLES", "20000")
    tests = ("tests/hostile", "-s")
    count = () if "--requests" in session.posargs else ("--requests=100000",)
    selection = (*tests, "--timeout=14400", *count, *session.posargs)
    run_pytest(session, *selection, BEAM_HOSTILE_EXAMPLES=examples)


@nox.session(default=False)
def release_files(session: nox.Session) -> None:
    """Writes and checks release notes, source distributions and wheels in .nox/distributions. ``-- --write`` moves the fragments into CHANGELOG.md."""
    session.install(*read_group("release"))
    shutil.rmtree(RELEASE, ignore_errors=True)
    for package in PACKAGES:
        folder = ROOT / "packages" / package
        version = str(read_project_table(package)["version"])
        notes = ("towncrier", "build", "--config", str(ROOT / "pyproject.toml"))
        how = "--yes" if "--write" in session.posargs else "--draft"
        session.run(*notes, f"--dir={folder}", f"--version={version}", how)
        # Build the wheel from the source distribution, to detect files that the source distribution
        # doesn't contain.
        session.run("python", "-m", "build", "-n", "-o", str(RELEASE), str(folder), silent=True)
        name = f"{distribution_name(package).replace('-', '_')}-{version}"
        session.run("python", "-m", "tools.check_release", str(folder), str(RELEASE / name))
    session.run("twine", "check", "--strict", *map(str, sorted(RELEASE.iterdir())))


@nox.session(requires=["wheels", "release_files"], default=False)
def release(session: nox.Session) -> None:
    """Installs the released packages alone in an environment and runs a pipeline of the README."""
    ensure_java(session)
    pyspark = [line for line in CONSTRAINTS.read_text().splitlines() if line.startswith("pyspark")]
    constraints = Path(session.create_tmp()) / "constraints.txt"
    constraints.write_text("\n".join(pyspark))
    wheels = map(str, sorted(RELEASE.glob("*.whl")))
    session.install(*wheels, "--constraint", str(constraints))
    counts = Path(session.create_tmp()) / "counts"
    words = ("apache_beam.examples.wordcount", f"--input={ROOT / 'README.md'}")
    runner = "--runner=beam_spark_executor.BeamSparkRunner"
    session.run("python", "-P", "-m", *words, f"--output={counts}", runner, env={"PYTHONPATH": ""})
    lines = [line for part in counts.parent.glob("counts-*") for line in part.open()]
    if not any(line.startswith("Spark: ") for line in lines):
        session.error(f"the README's words were not counted: {lines[:10]}")
    session.run("beam-runner-web", "--help", silent=True)


@nox.session(requires=["wheels"], default=False)
def sizes(session: nox.Session) -> None:
    """Tests the limits of docs/reference/limits.md that need no Spark, at full size; CI has small sizes. ``-- -k chain`` selects one limit."""
    install_requirements(session, distribution_name("executor"), *read_group("test"))
    run_pytest(session, "tests/sizes", "-s", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def recording(session: nox.Session) -> None:
    """Records docs/tutorial/terminal-session.md: installs by pip, runs a program and a server, cancels a stream. Uses the ports 8099 and 8074."""
    session.install(*read_group("test"))
    page = ROOT / "docs" / "tutorial" / "terminal-session.md"
    files = (str(page.with_suffix(".cast")), str(page))
    # The wheel of PySpark saves its build, which takes a minute.
    links = Path(session.create_tmp())
    for wheel in WHEELS.glob("pyspark-*.whl"):
        shutil.copy(wheel, links)
    run_python(session, "tests/recording/record.py", *files, PIP_FIND_LINKS=str(links))


@nox.session(requires=["wheels"], default=False)
def web_pictures(session: nox.Session) -> None:
    """Takes the pictures of docs/how-to/web-interface.md from real jobs."""
    ensure_java(session)
    ensure_chromium(session)
    install_requirements(session, f"{distribution_name('executor')}[web]", *read_group("browser"))
    session.run("python", "-P", "tests/pictures/take.py", "docs/web", env={"PYTHONPATH": ""})


@nox.session(requires=["wheels"])
def engine_long(session: nox.Session) -> None:
    """Runs the engine's random tests 10,000 times each, for at least half an hour. ``-- --hypothesis-seed=N`` repeats a seed."""
    install_requirements(
        session, distribution_name("engine"), *read_group("test"), *read_group("oracle")
    )
    arguments = list(session.posargs)
    if not any(argument.startswith("--hypothesis-seed") for argument in arguments):
        arguments.append(f"--hypothesis-seed={secrets.randbelow(2**32)}")
    runs = os.environ.get("BEAM_ENGINE_RUNS", "10000")
    session.log(f"{runs} runs: {' '.join(arguments)}")
    tests = ("packages/engine/tests", "--timeout=14400")
    run_pytest(session, *tests, *arguments, BEAM_ENGINE_RUNS=runs)


@nox.session(requires=["wheels"])
def engine_cost(session: nox.Session) -> None:
    """Measures the CPU time of events and groupings of the engine; fails if one costs more than its limit."""
    install_requirements(session, distribution_name("engine"))
    for half in ("scheduler", "keyed"):
        session.run("python", "-P", f"packages/engine/tests/{half}/measure_costs.py")


@nox.session(requires=["wheels"])
def engine_coverage(session: nox.Session) -> None:
    """Measures the line coverage of the engine by its own tests; fails below 95 %."""
    install_requirements(
        session,
        distribution_name("engine"),
        "coverage>=7",
        *read_group("test"),
        *read_group("oracle"),
    )
    data = {"COVERAGE_FILE": str(Path(session.create_tmp()) / "coverage"), "PYTHONPATH": ""}
    measure = ("python", "-P", "-m", "coverage")
    run = ("run", "--source=beam_runner_engine", "-m", "pytest", "packages/engine/tests")
    session.run(*measure, *run, *session.posargs, env=data)
    session.run(*measure, "report", "--show-missing", "--skip-covered", "--fail-under=95", env=data)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def cluster_all(session: nox.Session) -> None:
    """Runs more pipelines on a local cluster of three executors."""
    run_on_a_cluster(session, *ON_A_CLUSTER)


@nox.session(requires=["wheels"], default=False)
def doors_all(session: nox.Session) -> None:
    """Tests all ways to start the runner: notebook, YAML, ``spark-submit``, Prism's client and suite, PostgreSQL, killed parent processes."""
    ensure_java(session)
    packages = (f"{distribution_name('executor')}[yaml]", distribution_name("web"))
    groups = ("test", "notebook", "postgresql", "validates-runner")
    install_requirements(session, *packages, *(one for name in groups for one in read_group(name)))
    run_pytest(session, "tests/doors", *session.posargs)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def documents(session: nox.Session) -> None:
    """Runs every command of every document, with its installations, and compares every output; needs namespaces. ``-- -k tutorial`` selects pages."""
    run_pytest(session, "tests/documents", *session.posargs)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def validates_runner_all(session: nox.Session) -> None:
    """Runs Beam's test suites on a server on Spark, each test in both environments, also as a stream and with ``pre_optimize=none``."""
    run_beam_test_suites(session, *session.posargs)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def kills_long(session: nox.Session) -> None:
    """Kills servers, Spark, workers and SDK harnesses at all crash points and at random times. ``-- --rounds N --seed S`` for more."""
    names = (
        "short",
        "crash_points",
        "callbacks",
        "zombies",
        "ended_threads",
        "staged_files",
        "random_kills",
        "kills_of_a_drain",
        "kills_of_spark_streams",
        "quarantine",
    )
    tests = (f"tests/kills/test_{name}.py" for name in names)
    run_pytest(session, *tests, f"--deselect={KILLS_ON_A_CLUSTER}", *session.posargs)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def updates(session: nox.Session) -> None:
    """Updates running streams, and kills the server at all steps of the updates. ``-- --rounds N --seed S`` for more."""
    run_pytest(session, "tests/updates", *session.posargs)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def random_updates(session: nox.Session) -> None:
    """Cuts random streams by random updates, and compares the outputs with a model. ``-- --minutes N --seed S --kills`` for more."""
    run_python(session, "tests/updates/random_updates.py", *session.posargs)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def kills_on_a_cluster(session: nox.Session) -> None:
    """Kills random processes, also executors, on a local cluster of two executors. ``-- --rounds N --seed S`` for more."""
    tests = (KILLS_ON_A_CLUSTER, "tests/kills/test_kills_of_sections.py")
    run_pytest(session, *tests, *session.posargs)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def memory(session: nox.Session) -> None:
    """Processes gigabytes on a server with a limit of 2 GB and measures memory, for many minutes. ``-- --part 0.1`` for less."""
    run_pytest(session, "tests/memory", "-s", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def soak(session: nox.Session) -> None:
    """Runs three streams and a batch every minute for an hour, with kills in the second half, then 1,000 jobs. ``-- --minutes N --jobs N`` for less."""
    names = ("soak", "many_small_jobs", "restart_of_streams", "quiet_jobs")
    ensure_java(session)
    # Beam's client runs pip to list installed packages, and warns if pip is missing.
    install_requirements(
        session, f"{distribution_name('executor')}[stores]", "pip", *read_group("test")
    )
    tests = (f"tests/kills/test_{name}.py" for name in names)
    run_pytest(session, *tests, "-s", *session.posargs)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def differential(session: nox.Session) -> None:
    """Compares thousands of random pipelines and streams. ``-- --pipelines N --streams N --seed S --environment E`` changes them."""
    run_python(session, "tests/differential/differential.py", *session.posargs)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def streams_and_batches(session: nox.Session) -> None:
    """Compares thousands of random streams with batches. ``-- --streams N --seed S --drains --kills`` changes them."""
    run_python(session, "tests/streams_and_batches/streams_and_batches.py", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def outages(session: nox.Session) -> None:
    """Stops services, such as the store, while streams run; writes .nox/outages.md. ``-- --rounds N --seed S --lengths 1,30 --spark`` changes the outages."""
    run_outages(session, *session.posargs)
    if not session.posargs:
        run_pytest(session, OUTAGES_BEYOND_THE_LIMIT)


@nox.session(requires=["wheels"], default=False)
def quarantine(session: nox.Session) -> None:
    """Runs random streams with elements that always fail, and checks that they go to quarantine, with user code in workers and over LOOPBACK. ``-- --rounds N --seed S`` for more."""
    install_requirements(session, *read_group("test"), *read_group("executor"))
    run_pytest(session, "tests/quarantine", *(session.posargs or ("--rounds=20",)))


@nox.session(requires=["wheels"], default=False)
def standby(session: nox.Session) -> None:
    """Makes the active server fail while three streams run, and checks that a standby server takes over. ``-- --rounds N --seed S --losses N -k kill`` for more."""
    install_requirements(session, *read_group("test"), *read_group("executor"))
    run_pytest(session, "tests/standby", "-s", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def deploy(session: nox.Session) -> None:
    """Checks the files of deploy/: Kubernetes schemas, the chart, the unit, the image, and the page about Spark standalone. Skips parts without their tools."""
    ensure_java(session)
    tests = (*read_group("test"), *read_group("web"), *read_group("deploy"))
    packages = (f"{distribution_name('executor')}[stores]", distribution_name("web"))
    install_requirements(session, *packages, *tests)
    if shutil.which("helm") is None and shutil.which("go") is not None:
        fetch = ("go", "install", HELM)
        session.run(*fetch, env={"GOBIN": session.bin}, external=True, silent=True)
    run_pytest(session, "tests/deploy", "-s", *session.posargs)


@nox.session(requires=["wheels"], default=False)
@nox.parametrize("python,cell", [nox.param(cell.python, cell, id=cell.name) for cell in CELLS])
def versions(session: nox.Session, cell: VersionCell) -> None:
    """Tests the server with one pair of version bounds, and with all lowest versions; writes a row of docs/reference/versions.md each."""
    ensure_java(session)
    install_cell(session, cell, *read_group("test"), *read_group("pipelines"))
    row = list(list_versions(session))
    row[0] += ", lowest of all" if cell.lowest else ""
    for column, selection in CHECKS.items():
        results = OUTCOMES / f"{cell.name}-{column.split()[0].strip(',')}.xml"
        results.unlink(missing_ok=True)
        command = ("python", "-P", "-m", "pytest", *selection, f"--junitxml={results}")
        session.run(*command, *session.posargs, env={"PYTHONPATH": ""}, success_codes=range(6))
        row.append(format_outcome_cell(results))
    session.log(
        ", ".join(f"{name}: {value}" for name, value in zip((*HEADS, *CHECKS), row, strict=True))
    )
    replace_row(PAGE, "versions", tuple(row), len(HEADS))
    if not all(value.isdigit() for value in row[len(HEADS) :]):
        session.error("not all of it works with these versions")
