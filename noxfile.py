# /// script
# requires-python = ">=3.11"
# dependencies = ["nox[uv]>=2025.5.1"]
# ///
"""Nox sessions for CI and developers: ``python3 -m nox`` runs the sessions of CI, ``-s <session>``
runs one session.

Nox reads the script block above and installs uv, which creates a virtual environment in seconds.
Without uv (``NOX_SCRIPT_MODE=none``) the sessions use pip, which is slower. Sessions install the
packages as wheels and never use the source tree, so that undeclared dependencies are found.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from pathlib import Path

import nox
from nox.command import CommandFailed

sys.path.insert(0, str(Path(__file__).parent))  # nox may come from a separate environment

import tools.nox_benchmarks
import tools.nox_others
import tools.nox_slow  # noqa: F401 - these, too
from tools.bytecode import get_bytecode_folder
from tools.minor_tests import run_tests_of_minors
from tools.nox_support import (
    CONSTRAINTS,
    IN_CI_ON_A_CLUSTER,
    KEPT,
    KILLED,
    ON_LANES,
    ON_SPARK,
    OUTAGES_BEYOND_THE_LIMIT,
    PACKAGES,
    RESULTS,
    ROOT,
    RUNS_ALONE,
    SIDE_BY_SIDE,
    SOURCES,
    SUITES,
    WHEELS,
    WITH_EXTRAS,
    WITH_RESULTS,
    distribution_name,
    ensure_chromium,
    ensure_java,
    get_repeated_results,
    install_requirements,
    list_sessions_to_run_first,
    make_pytest_arguments,
    read_group,
    run_beam_test_suites,
    run_on_a_cluster,
    run_on_plain_processes,
    run_outages,
    run_pytest,
    run_python,
    run_unit_tests,
)
from tools.version_cells import NEWEST, OLDEST, build_pyspark_wheels, install_cell

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.stop_on_first_error = False
# Use the system's certificates, as pip does, because a company's proxy can require them.
os.environ.setdefault("UV_SYSTEM_CERTS", "true")

# Sessions that CI and `nox` without arguments run. The longest sessions come first, and sessions
# that need results of others come last.
IN_CI = (
    *("lint", "layers", "api"),
    *("plain", "validates_runner", "go", "pipelines_part", "updates_part", "kills"),
    *("differential_part", "streams_and_batches_part", "cluster", "doors", "types", "lanes"),
    *("clusters_part", "second_runner", "browser", "outages_part", "tests", "docs", "purity"),
    *("web", "memory_part", "wordcount"),
    "capabilities",
)
# Sessions that don't need our wheels, so they can run while the wheels are built.
FIRST = ("environment", "lint", "layers", "api", "tests(architecture)")
LAST = ("capabilities",)
# Sessions that mostly wait (less than 0.8 cores). CI runs two of them in parallel with a session that computes.
WAITING = (
    *("validates_runner", "second_runner", "cluster", "clusters_part", "kills", "outages_part"),
    *("browser", "doors", "streams_and_batches_part", "differential_part", "tests(storage)"),
    "updates_part",
)
nox.options.sessions = ["ci"]


@nox.session(venv_backend="none")
def ci(session: nox.Session) -> None:
    """Runs all sessions that must pass, three in parallel: one that computes, and two that mostly wait. ``-- SESSION ...`` selects sessions."""
    tests = [f"tests({suite})" for suite in reversed(SUITES)]
    names = [one for name in IN_CI for one in (tests if name == "tests" else [name])]
    chosen = [name for name in session.posargs or names if name not in (*FIRST, *LAST)]
    failed = False
    for part in (FIRST, chosen, () if session.posargs else LAST):
        try:
            if part:
                waiting = f"--waiting={','.join(WAITING)}"
                side_by_side = (sys.executable, "tools/side_by_side.py", waiting, *part)
                session.run(*side_by_side, external=True)
        except CommandFailed:
            failed = True
    if failed:
        session.error("not all sessions ended well: see above")


@nox.session(default=False)
def both_pysparks(session: nox.Session) -> None:
    """Builds wheels of the newest and the oldest pyspark in parallel, because PyPI has source distributions only."""
    build_pyspark_wheels(session, NEWEST.pyspark_version, OLDEST.pyspark_version)


@nox.session(default=False)
def wheels(session: nox.Session) -> None:
    """Builds the wheels that the other sessions install: our packages and the newest pyspark."""
    session.install("hatchling")
    WHEELS.mkdir(parents=True, exist_ok=True)
    for stale in WHEELS.glob("beam_*.whl"):
        stale.unlink()
    for package in PACKAGES:
        with session.chdir(ROOT / "packages" / package):
            session.run("hatchling", "build", "-t", "wheel", "-d", str(WHEELS), silent=True)
    newest = build_pyspark_wheels(session, NEWEST.pyspark_version)
    lines = [
        f"{wheel.name.split('-')[0].replace('_', '-')} @ {wheel.as_uri()}"
        for wheel in (*sorted(WHEELS.glob("beam_*.whl")), *newest)
    ]
    CONSTRAINTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


@nox.session(requires=["wheels"], default=False)
def environment(session: nox.Session) -> None:
    """Creates the environment that sessions with pipelines on Spark share, because installing it takes seconds."""
    ensure_java(session)
    groups = (one for name in ("test", "pipelines", "validates-runner") for one in read_group(name))
    install_requirements(
        session, f"{distribution_name('executor')}[stores]", *groups, compiled=True
    )


@nox.session
def lint(session: nox.Session) -> None:
    """Checks style, likely bugs, banned names of each layer, size limits, tests without assertions, class names, sibling version bounds, and words."""
    session.install(*read_group("lint"))
    session.run("python", "-m", "tools.siblings", env={"PYTHONPATH": ""})
    session.run("python", "tools/check_sizes.py")
    session.run("python", "-m", "tools.check_tests")
    session.run("python", "tools/check_class_names.py")
    session.run("python", "tools/check_words.py")
    session.run("ruff", "check", "--no-cache", ".")
    session.run("ruff", "format", "--no-cache", "--check", ".")


@nox.session(requires=list_sessions_to_run_first("both_pysparks", "wheels"))
def types(session: nox.Session) -> None:
    """Checks types of all packages, tools, examples and this file, and the used APIs and replaced functions of each minor version of Beam, and the used APIs of the oldest and newest PySpark."""
    groups = (
        *read_group("types"),
        *read_group("test"),
        *read_group("layers"),
        *read_group("api"),
    )
    everything = f"{distribution_name('executor')}[hdfs,openlineage,opentelemetry,stores,web]"
    install_requirements(session, everything, "nox", "pip", *groups)
    mypy = ("mypy", "--cache-dir", str(KEPT / "mypy"))
    packages = [option for name in PACKAGES.values() for option in ("--package", name)]
    session.run(*mypy, *packages)
    session.run(*mypy, "noxfile.py", "tools", "examples/wordcount.py", "examples/second_runner")
    ends = build_pyspark_wheels(session, OLDEST.pyspark_version, NEWEST.pyspark_version)
    minors = WHEELS.parent / "beam"
    session.run("python", "-m", "tools.check_versions", "--minors", str(minors), *map(str, ends))
    run_tests_of_minors(session, minors)
    session.run(*mypy, "tests/contracts/test_protocols.py")
    session.run(*mypy, "packages/engine/tests", "docs/engine")


@nox.session(requires=list_sessions_to_run_first("wheels"))
def docs(session: nox.Session) -> None:
    """Builds the documentation site with an API reference from docstrings in .nox/site, and checks its links."""
    install_requirements(
        session, distribution_name("executor"), *read_group("docs"), compiled=False
    )
    # Imports of Beam write messages to the standard error that are not Sphinx warnings.
    options = ("-j", "auto", "--fail-on-warning", "--keep-going", "-q", "-E")
    site = ("-c", "docs/site", ".", str(ROOT / ".nox" / "site"))
    run_python(session, "-m", "sphinx", *options, *site)
    session.run("python", "tools/check_site.py", str(ROOT / ".nox" / "site"))


@nox.session
def layers(session: nox.Session) -> None:
    """Checks the import contracts of .importlinter."""
    session.install(*read_group("layers"))
    session.run("lint-imports", "--no-logo", "--no-cache", env={"PYTHONPATH": SOURCES})


@nox.session
def api(session: nox.Session) -> None:
    """Checks that the listed public names of each package are the names in use, and that changes have release notes."""
    session.install(*read_group("api"))
    session.run("python", "-m", "tools.public_api", *session.posargs, env={"PYTHONPATH": ""})


@nox.session(requires=list_sessions_to_run_first("wheels"))
@nox.parametrize("package", list(PACKAGES), ids=list(PACKAGES))
def purity(session: nox.Session, package: str) -> None:
    """Checks each wheel alone in an empty environment: modules import, load no forbidden module, and examples run."""
    install_requirements(session, distribution_name(package) + WITH_EXTRAS.get(package, ""))
    folder = get_bytecode_folder(Path(session.virtualenv.location))
    isolated = ("python", "-I", "-X", f"pycache_prefix={folder}")
    session.run(*isolated, "tools/check_purity.py", PACKAGES[package])
    for example in RUNS_ALONE.get(package, ()):
        session.run(*isolated, example)


@nox.session(requires=list_sessions_to_run_first("wheels"))
@nox.parametrize("suite", SUITES, ids=SUITES)
def tests(session: nox.Session, suite: str) -> None:
    """Runs unit tests of one package on its wheel with its declared dependencies only, or the tests between packages."""
    if suite in PACKAGES:
        run_unit_tests(session, suite)
    elif suite == "contracts":
        packages = (distribution_name("executor"), distribution_name("web"))
        install_requirements(session, *packages, *read_group("test"), *read_group("web"))
        small = ("tests/sizes", "-m", "not slow")
        suites = ("tests/contracts", "tests/hostile", *small)
        run_pytest(session, *suites, *SIDE_BY_SIDE, *session.posargs)
    else:
        session.install(
            "nox",
            *read_group("test"),
            *read_group("lint"),
            *read_group("layers"),
            *read_group("api"),
            *read_group("workflows"),
        )
        run_pytest(session, "tests/architecture", *SIDE_BY_SIDE, *session.posargs)


@nox.session(requires=list_sessions_to_run_first("wheels"))
def web(session: nox.Session) -> None:
    """Runs unit tests of the web interface on its wheel, and checks its pages for Beam's job server and, if installed, Prism."""
    run_unit_tests(session, "web")


@nox.session(requires=list_sessions_to_run_first("wheels"))
def browser(session: nox.Session) -> None:
    """Tests the pages of the web interface in Chromium. The session installs Debian's Chromium if it has permission."""
    ensure_chromium(session)
    install_requirements(
        session,
        distribution_name("web"),
        *read_group("test"),
        *read_group("web"),
        *read_group("browser"),
    )
    run_pytest(
        session, "packages/web/tests/browser", *SIDE_BY_SIDE, "--dist=load", *session.posargs
    )


@nox.session(requires=list_sessions_to_run_first("environment"), venv_backend="none")
def plain(session: nox.Session) -> None:
    """Runs a fixed part of ``plain_all``: slow tests run in one environment, and harness processes only in a test of each part of the model."""
    run_on_plain_processes(session, *make_pytest_arguments(session, "-m", "not slow"))


@nox.session(requires=list_sessions_to_run_first("environment"), venv_backend="none")
def pipelines_part(session: nox.Session) -> None:
    """Runs the tests of the session ``pipelines`` that depend on Spark's processes."""
    run_pytest(session, *ON_SPARK, *SIDE_BY_SIDE, *make_pytest_arguments(session))


@nox.session(requires=list_sessions_to_run_first("both_pysparks", "wheels"))
def lanes(session: nox.Session) -> None:
    """Runs some embedded pipelines without the loop inside a task, on the lowest declared versions."""
    ensure_java(session)
    install_cell(session, OLDEST, *read_group("test"))
    selection = ("--without-loop", *make_pytest_arguments(session, "-k", "embedded"))
    # In one process, because each process starts a server and Spark.
    run_pytest(session, *ON_LANES, *selection)


@nox.session(requires=list_sessions_to_run_first("environment"), venv_backend="none")
def cluster(session: nox.Session) -> None:
    """Runs some pipelines on a local cluster of three executors, also while executors and workers are killed."""
    run_on_a_cluster(session, *IN_CI_ON_A_CLUSTER)


@nox.session(requires=list_sessions_to_run_first("environment"), venv_backend="none")
def doors(session: nox.Session) -> None:
    """Tests some ways to start the runner without a separate server, as users start it, and a part of `documents`; `doors_all` runs all ways."""
    selection = session.posargs or ("-m", "not slow")
    suites = ("tests/doors", "tests/documents")
    run_pytest(session, *suites, *SIDE_BY_SIDE, "--dist=load", *selection)


@nox.session(requires=list_sessions_to_run_first("environment"), venv_backend="none")
def validates_runner(session: nox.Session) -> None:
    """Runs Beam's test suites on a server on Spark, each test in one environment; some tests also as a stream and with ``pre_optimize=none``."""
    run_beam_test_suites(session, *make_pytest_arguments(session, "-m", "not slow"))


@nox.session(requires=list_sessions_to_run_first("environment"), venv_backend="none")
def go(session: nox.Session) -> None:
    """Runs a fixed part of the Go SDK's integration tests, and a job of Go and Python; skipped without Go."""
    if shutil.which("go") is None:
        session.skip("Go was not found: install Go 1.26 or newer to run pipelines of its SDK")
    run_pytest(session, "tests/go", *make_pytest_arguments(session))


@nox.session(requires=list_sessions_to_run_first("wheels"))
def second_runner(session: nox.Session) -> None:
    """Tests the Dask runner of examples/second_runner without PySpark: words, a stateful stream, Beam's suite."""
    install_requirements(
        session,
        distribution_name("server"),
        *read_group("test"),
        *read_group("second-runner"),
    )
    run_pytest(session, "tests/second_runner", *session.posargs)


@nox.session(venv_backend="none")
def capabilities(session: nox.Session) -> None:
    """Compares the table of capabilities with the results of pipeline sessions. ``-- --write`` writes the table."""
    results = [RESULTS / f"{name}.xml" for name in WITH_RESULTS]
    if missing := [path.stem for path in results if not path.exists()]:
        session.error(f"no results of {' and '.join(missing)}: run these sessions first, in full")
    results += [path for path in map(get_repeated_results, WITH_RESULTS) if path.exists()]
    session.run("python3", "tools/capabilities.py", *session.posargs, *map(str, results))


@nox.session(requires=list_sessions_to_run_first("wheels"))
def wordcount(session: nox.Session) -> None:
    """Counts the words of real text on Spark. ``-- --input GLOB`` reads other text."""
    ensure_java(session)
    install_requirements(session, f"{distribution_name('executor')}[web]")
    run_python(session, "examples/wordcount.py", *session.posargs)


@nox.session(requires=list_sessions_to_run_first("environment"), venv_backend="none")
def kills(session: nox.Session) -> None:
    """Kills workers at every step of the commit protocol, a server in a commit, and Spark, and one random process."""
    if session.posargs:
        run_pytest(session, "tests/kills", "-m", "not slow", *session.posargs)
        return
    seed = secrets.randbelow(2**16)
    victim, environment = KILLED[seed % len(KILLED)]
    at_random = f"test_random_kills.py::test_random_kills_on_one_machine_keep_the_result_exact[{seed}-{environment}-{victim}]"
    names = ("short", "gauges", "shutdown_table", "ended_threads", "staged_files")
    fixed = (f"test_{name}.py" for name in names)
    which = [f"tests/kills/{name}" for name in (*fixed, at_random)]
    run_pytest(session, *which, "--seed", str(seed), *SIDE_BY_SIDE)


@nox.session(requires=list_sessions_to_run_first("environment"), venv_backend="none")
def memory_part(session: nox.Session) -> None:
    """Runs the tests of `memory` with a tenth of the data, embedded."""
    tenth = ("--part", "0.1", "-k", "embedded and not one_key", "-s")
    run_pytest(session, "tests/memory", *(session.posargs or tenth))


@nox.session(requires=list_sessions_to_run_first("environment"), venv_backend="none")
def differential_part(session: nox.Session) -> None:
    """Compares a few random pipelines and streams, as `differential` does; every run has different pipelines."""
    run_pytest(session, "tests/differential")
    few = ("--pipelines", "20", "--streams", "10", "--batch", "10", "--environment", "LOOPBACK")
    run_python(session, "tests/differential/differential.py", *(session.posargs or few))


@nox.session(requires=list_sessions_to_run_first("environment"), venv_backend="none")
def streams_and_batches_part(session: nox.Session) -> None:
    """Compares a few random streams with batches on plain processes; every run has different streams."""
    run_pytest(session, "tests/streams_and_batches")
    few = ("--streams=16", "--batch=3", "--drains=0.3", "--without-spark")
    compare = "tests/streams_and_batches/streams_and_batches.py"
    run_python(session, compare, *(session.posargs or few))


@nox.session(requires=list_sessions_to_run_first("wheels"))
def outages_part(session: nox.Session) -> None:
    """Runs a few of the outages of `outages` on plain processes; every run has different outages."""
    few = ("--rounds=1", "--lengths=3", "--site=data store", "--site=state store", "--site=service")
    run_outages(session, *(session.posargs or few))
    run_pytest(session, "tests/outages", f"--ignore={OUTAGES_BEYOND_THE_LIMIT}")
