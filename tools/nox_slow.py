"""Sessions that a bare ``nox`` and CI leave out: they take long, or write figures and pictures."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

import nox
from nox.command import CommandFailed

from tools.nox_support import (
    CLUSTER,
    CONSTRAINTS,
    KILLS_ON_A_CLUSTER,
    ON_A_CLUSTER,
    ONLY_ON_LANES,
    OUTAGES_BEYOND_THE_LIMIT,
    PACKAGES,
    RELEASE,
    ROOT,
    SIDE_BY_SIDE,
    STREAMS,
    WITHOUT_A_STORE,
    distribution,
    group,
    install,
    need_chromium,
    need_java,
    project,
    run_beams_suites,
    run_bench,
    run_on_a_cluster,
    run_on_plain_processes,
    run_outages,
    run_pytest,
    run_python,
)
from tools.version_cells import CELLS, CHECKS, HEADS, Cell, install_cell, versions_of
from tools.version_tables import OUTCOMES, PAGE, outcome, write_row


@nox.session(requires=["wheels"], default=False)
def damages(session: nox.Session) -> None:
    """1,200 damages each to journal and job list of a server that was closed or killed, none of them silent; CI runs some of them."""
    install(session, distribution("executor"), *group("test"))
    count = os.environ.get("BEAM_DAMAGES", "1200")
    suites = ("runtime/tests/driver/test_damage.py", "jobservices/tests/test_damages.py")
    tests = (*(f"packages/{suite}" for suite in suites), "-s", *session.posargs)
    run_pytest(session, *tests, BEAM_DAMAGES=count)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def pipelines(session: nox.Session) -> None:
    """Whole pipelines against real servers on Spark, some side by side; CI runs most of them on plain processes, and some so."""
    selection = (f"--ignore={CLUSTER}", "--promised-times", *session.posargs)
    run_pytest(session, "tests/pipelines", *SIDE_BY_SIDE, *selection)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def plain_all(session: nox.Session) -> None:
    """Whole pipelines against real servers on plain processes, each in all kinds of environment; CI runs a fixed part."""
    run_on_plain_processes(session, *session.posargs)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def bulk(session: nox.Session) -> None:
    """Every section that can be run as one, on ``local[*]``, to the end of all four parts, whatever comes of each.

    These are whole pipelines (``tests/pipelines`` but streams, and what only lanes do) and all of Beam's suites with
    ``--bulk always``, two files of pipelines without a store, and 300 random pipelines beside the oracle. None over
    LOOPBACK, whose one interpreter has no sections. ``-- ARGUMENTS`` go to the first part.
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
        lambda: run_beams_suites(
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
    """20,000 mutated pipelines, 100,000 hostile requests; CI has some. ``-- --requests N --seed S --hypothesis-seed=N`` runs others."""
    install(session, distribution("executor"), *group("test"))
    examples = os.environ.get("BEAM_HOSTILE_EXAMPLES", "20000")
    tests = ("tests/hostile", "-s")
    count = () if "--requests" in session.posargs else ("--requests=100000",)
    selection = (*tests, "--timeout=14400", *count, *session.posargs)
    run_pytest(session, *selection, BEAM_HOSTILE_EXAMPLES=examples)


@nox.session(default=False)
def release_files(session: nox.Session) -> None:
    """Notes, source distributions and wheels of all packages, checked, in .nox/distributions. ``-- --write`` moves the notes' fragments into CHANGELOG.md."""
    session.install(*group("release"))
    shutil.rmtree(RELEASE, ignore_errors=True)
    for package in PACKAGES:
        folder = ROOT / "packages" / package
        version = str(project(package)["version"])
        notes = ("towncrier", "build", "--config", str(ROOT / "pyproject.toml"))
        how = "--yes" if "--write" in session.posargs else "--draft"
        session.run(*notes, f"--dir={folder}", f"--version={version}", how)
        # The wheel is made of the source distribution, so that one which lacks something is seen.
        session.run("python", "-m", "build", "-n", "-o", str(RELEASE), str(folder), silent=True)
        name = f"{distribution(package).replace('-', '_')}-{version}"
        session.run("python", "-m", "tools.check_release", str(folder), str(RELEASE / name))
    session.run("twine", "check", "--strict", *map(str, sorted(RELEASE.iterdir())))


@nox.session(requires=["wheels", "release_files"], default=False)
def release(session: nox.Session) -> None:
    """All that is released, installed together where nothing else is, runs a pipeline of the README."""
    need_java(session)
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
    """The rows of docs/limits.md that can be run without Spark, at full size; CI has small ones. ``-- -k chain`` for one."""
    install(session, distribution("executor"), *group("test"))
    run_pytest(session, "tests/sizes", "-s", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def web_pictures(session: nox.Session) -> None:
    """Takes the pictures of docs/web.md from real jobs."""
    need_java(session)
    need_chromium(session)
    install(session, f"{distribution('executor')}[web]", *group("browser"))
    session.run("python", "-P", "tests/pictures/take.py", "docs/web", env={"PYTHONPATH": ""})


@nox.session(requires=["wheels"])
def engine_long(session: nox.Session) -> None:
    """The engine's random tests with 10,000 runs each, for half an hour or more. ``-- --hypothesis-seed=N`` runs a seed again."""
    install(session, distribution("engine"), *group("test"), *group("oracle"))
    arguments = list(session.posargs)
    if not any(argument.startswith("--hypothesis-seed") for argument in arguments):
        arguments.append(f"--hypothesis-seed={secrets.randbelow(2**32)}")
    runs = os.environ.get("BEAM_ENGINE_RUNS", "10000")
    session.log(f"{runs} runs: {' '.join(arguments)}")
    tests = ("packages/engine/tests", "--timeout=14400")
    run_pytest(session, *tests, *arguments, BEAM_ENGINE_RUNS=runs)


@nox.session(requires=["wheels"])
def engine_cost(session: nox.Session) -> None:
    """The figures of docs/engine/cost.md, written there; fails if an event or a grouping costs more than it may."""
    install(session, distribution("engine"))
    page = ROOT / "docs" / "engine" / "cost.md"
    text = page.read_text(encoding="utf-8")
    for half in ("scheduler", "keyed"):
        measure = f"packages/engine/tests/{half}/measure_costs.py"
        printed = str(session.run("python", "-P", measure, silent=True))
        session.log(printed)
        for name, table in re.findall(
            r"(<!-- table: \w+ -->\n)(.*?)<!-- end -->", printed, re.DOTALL
        ):
            before, after = text.split(name)
            text = before + name + table + after[after.index("<!-- end -->") :]
    page.write_text(text, encoding="utf-8")


@nox.session(requires=["wheels"])
def engine_coverage(session: nox.Session) -> None:
    """Which lines of the engine its own tests run; fails below 95 %."""
    install(session, distribution("engine"), "coverage>=7", *group("test"), *group("oracle"))
    data = {"COVERAGE_FILE": str(Path(session.create_tmp()) / "coverage"), "PYTHONPATH": ""}
    measure = ("python", "-P", "-m", "coverage")
    run = ("run", "--source=beam_runner_engine", "-m", "pytest", "packages/engine/tests")
    session.run(*measure, *run, *session.posargs, env=data)
    session.run(*measure, "report", "--show-missing", "--skip-covered", "--fail-under=95", env=data)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def cluster_all(session: nox.Session) -> None:
    """More pipelines on a cluster of three executors on this machine."""
    run_on_a_cluster(session, *ON_A_CLUSTER)


@nox.session(requires=["wheels"], default=False)
def doors_all(session: nox.Session) -> None:
    """All ways in: the tutorial, a notebook, YAML, ``spark-submit``, Prism's door and Beam's tests of it, PostgreSQL, parents that are killed."""
    need_java(session)
    packages = (distribution("executor"), distribution("web"))
    groups = ("test", "notebook", "postgresql", "validates-runner", "yaml")
    install(session, *packages, *(one for name in groups for one in group(name)))
    run_pytest(session, "tests/doors", *session.posargs)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def validates_runner_all(session: nox.Session) -> None:
    """Beam's own suites against a real server on Spark, each test in both kinds of environment, also as a stream and with ``pre_optimize=none``."""
    run_beams_suites(session, *session.posargs)


@nox.session(requires=["wheels"], default=False)
def bench(session: nox.Session) -> None:
    """This runner beside FnApiRunner and, where it is found, Prism. ``-- --write`` writes the table; ``-- --pages`` compares with and without web pages."""
    run_bench(session, "bench", "[web]")


@nox.session(requires=["wheels"], default=False)
def bench_starts(session: nox.Session) -> None:
    """A new program's first pipeline by several runners, and one in a warm program. ``-- --prism PATH`` has Prism among them."""
    run_bench(session, "starts")


@nox.session(requires=["wheels"], default=False)
def bench_streams(session: nox.Session) -> None:
    """Latency and throughput of a stream beside Spark's transformWithState and, where it is found, Prism. ``-- --write`` writes the table."""
    run_bench(session, "streams")


@nox.session(requires=["wheels"], default=False)
def bench_tables(session: nox.Session) -> None:
    """Five million rows of Parquet by Spark's readers in a pipeline, by Beam's, and by hand. ``-- --rows N`` for others."""
    run_bench(session, "tables")


@nox.session(requires=["environment"], venv_backend="none", default=False)
def kills_long(session: nox.Session) -> None:
    """Servers, Spark, workers and SDK harnesses die everywhere and at any time. ``-- --rounds N --seed S`` for more."""
    names = (
        "short",
        "crash_points",
        "callbacks",
        "zombies",
        "random_kills",
        "kills_of_a_drain",
        "kills_of_spark_streams",
    )
    tests = (f"tests/kills/test_{name}.py" for name in names)
    run_pytest(session, *tests, f"--deselect={KILLS_ON_A_CLUSTER}", *session.posargs)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def kills_on_a_cluster(session: nox.Session) -> None:
    """Random kills, of executors too, on a cluster of two executors on this machine. ``-- --rounds N --seed S`` for more."""
    tests = (KILLS_ON_A_CLUSTER, "tests/kills/test_kills_of_sections.py")
    run_pytest(session, *tests, *session.posargs)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def memory(session: nox.Session) -> None:
    """Gigabytes in a server that may use two, measured; takes many minutes. ``-- --part 0.1`` for less."""
    run_pytest(session, "tests/memory", "-s", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def soak(session: nox.Session) -> None:
    """An hour of three streams and a batch a minute, kills in its second half; then 1,000 jobs; logs. ``-- --minutes N --jobs N`` for less."""
    names = ("soak", "many_small_jobs", "restart_of_streams", "quiet_jobs")
    need_java(session)
    # Beam's client asks pip what is installed, and warns of a pip that is missing.
    install(session, f"{distribution('executor')}[stores]", "pip", *group("test"))
    tests = (f"tests/kills/test_{name}.py" for name in names)
    run_pytest(session, *tests, "-s", *session.posargs)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def differential(session: nox.Session) -> None:
    """Thousands of random pipelines and streams. ``-- --pipelines N --streams N --seed S --environment E`` for others."""
    run_python(session, "tests/differential/differential.py", *session.posargs)


@nox.session(requires=["environment"], venv_backend="none", default=False)
def streams_and_batches(session: nox.Session) -> None:
    """Compare thousands of random streams with batches. ``-- --streams N --seed S --drains --kills`` for others."""
    run_python(session, "tests/streams_and_batches/streams_and_batches.py", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def outages(session: nox.Session) -> None:
    """Takes neighbours away while streams run; writes .nox/outages.md. ``-- --rounds N --seed S --lengths 1,30 --spark`` for others."""
    run_outages(session, *session.posargs)
    if not session.posargs:
        run_pytest(session, OUTAGES_BEYOND_THE_LIMIT)


@nox.session(requires=["wheels"], default=False)
@nox.parametrize("python,cell", [nox.param(cell.python, cell, id=cell.name) for cell in CELLS])
def versions(session: nox.Session, cell: Cell) -> None:
    """The server on one pair of the ends of the ranges, and on the lowest of all: a row of docs/versions.md each."""
    need_java(session)
    install_cell(session, cell, *group("test"), *group("pipelines"))
    row = list(versions_of(session))
    row[0] += ", lowest of all" if cell.lowest else ""
    for column, selection in CHECKS.items():
        results = OUTCOMES / f"{cell.name}-{column.split()[0].strip(',')}.xml"
        results.unlink(missing_ok=True)
        command = ("python", "-P", "-m", "pytest", *selection, f"--junitxml={results}")
        session.run(*command, *session.posargs, env={"PYTHONPATH": ""}, success_codes=range(6))
        row.append(outcome(results))
    session.log(
        ", ".join(f"{name}: {value}" for name, value in zip((*HEADS, *CHECKS), row, strict=True))
    )
    write_row(PAGE, "versions", tuple(row), len(HEADS))
    if not all(value.isdigit() for value in row[len(HEADS) :]):
        session.error("not all of it works with these versions")
