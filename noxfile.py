# /// script
# requires-python = ">=3.11"
# dependencies = ["nox[uv]>=2025.5.1"]
# ///
"""What CI runs, and how a developer runs the same: ``python3 -m nox`` for all, ``-s <session>`` for one.

Nox reads the block above and gets itself uv, which fills a virtual environment in seconds; without it (``NOX_SCRIPT_MODE=none``)
everything works with pip, slower. Sessions install the packages as wheels, never the source tree, so an undeclared dependency
fails here before it fails at a user's.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from pathlib import Path

import nox
from nox.command import CommandFailed

sys.path.insert(0, str(Path(__file__).parent))  # nox may come from an environment of its own

import tools.nox_others
import tools.nox_slow  # noqa: F401 - these, too
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
    distribution,
    group,
    install,
    need_chromium,
    need_java,
    needs,
    results_of,
    run_beams_suites,
    run_on_a_cluster,
    run_on_plain_processes,
    run_outages,
    run_pytest,
    run_python,
    run_unit_tests,
)
from tools.version_cells import NEWEST, OLDEST, install_cell, pyspark_wheels

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.stop_on_first_error = False
# As pip does: behind a company's proxy only the system's certificates are right.
os.environ.setdefault("UV_SYSTEM_CERTS", "true")

# What a bare `nox` and CI run: the longest first, and last what reads their results.
IN_CI = (
    *("lint", "layers", "api"),
    *("plain", "tests", "validates_runner", "pipelines_part", "second_runner", "cluster"),
    *("clusters_part", "kills", "outages_part", "lanes", "browser", "web", "types", "doors"),
    *("streams_and_batches_part", "differential_part"),
    *("go", "docs", "purity", "memory_part", "wordcount"),
    "capabilities",
)
# What needs none of our wheels runs beside the session that makes what the others share.
FIRST = ("environment", "lint", "layers", "api", "tests(architecture)")
LAST = ("capabilities",)
nox.options.sessions = ["ci"]


@nox.session(venv_backend="none")
def ci(session: nox.Session) -> None:
    """Everything that has to pass, two sessions side by side. ``-- SESSION ...`` runs some of it."""
    tests = [f"tests({suite})" for suite in reversed(SUITES)]
    names = [one for name in IN_CI for one in (tests if name == "tests" else [name])]
    chosen = [name for name in session.posargs or names if name not in (*FIRST, *LAST)]
    failed = False
    for part in (FIRST, chosen, () if session.posargs else LAST):
        try:
            if part:
                side_by_side = (sys.executable, "tools/side_by_side.py", *part)
                session.run(*side_by_side, external=True)
        except CommandFailed:
            failed = True
    if failed:
        session.error("not all sessions ended well: see above")


@nox.session(default=False)
def both_pysparks(session: nox.Session) -> None:
    """Build wheels of the newest and the oldest pyspark side by side, because PyPI has sources only."""
    pyspark_wheels(session, NEWEST.pyspark_version, OLDEST.pyspark_version)


@nox.session(default=False)
def wheels(session: nox.Session) -> None:
    """Build the wheels that the other sessions install: our packages and the newest pyspark."""
    session.install("hatchling")
    WHEELS.mkdir(parents=True, exist_ok=True)
    for stale in WHEELS.glob("beam_*.whl"):
        stale.unlink()
    for package in PACKAGES:
        with session.chdir(ROOT / "packages" / package):
            session.run("hatchling", "build", "-t", "wheel", "-d", str(WHEELS), silent=True)
    newest = pyspark_wheels(session, NEWEST.pyspark_version)
    lines = [
        f"{wheel.name.split('-')[0].replace('_', '-')} @ {wheel.as_uri()}"
        for wheel in (*sorted(WHEELS.glob("beam_*.whl")), *newest)
    ]
    CONSTRAINTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


@nox.session(requires=["wheels"], default=False)
def environment(session: nox.Session) -> None:
    """The environment that sessions of whole pipelines on Spark share, because filling one takes seconds."""
    need_java(session)
    groups = (one for name in ("test", "pipelines", "validates-runner") for one in group(name))
    install(session, f"{distribution('executor')}[stores]", *groups, compiled=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, likely bugs, banned names of each layer, limits of size, tests without assertions, class names, and bounds on siblings."""
    session.install(*group("lint"))
    session.run("python", "-m", "tools.siblings", env={"PYTHONPATH": ""})
    session.run("python", "tools/check_sizes.py")
    session.run("python", "tools/check_tests.py")
    session.run("python", "tools/check_class_names.py")
    session.run("ruff", "check", "--no-cache", ".")
    session.run("ruff", "format", "--no-cache", "--check", ".")


@nox.session(requires=needs("both_pysparks", "wheels"))
def types(session: nox.Session) -> None:
    """Types of every package, of the tools, the examples and this file; and all that is used of Beam, in each minor version, and of PySpark, in the oldest and the newest."""
    groups = (*group("types"), *group("test"), *group("layers"), *group("api"))
    everything = f"{distribution('executor')}[hdfs,stores,web]"
    install(session, everything, "nox", "pip", *groups)
    mypy = ("mypy", "--cache-dir", str(KEPT / "mypy"))
    packages = [option for name in PACKAGES.values() for option in ("--package", name)]
    session.run(*mypy, *packages)
    session.run(*mypy, "noxfile.py", "tools", "examples")
    ends = pyspark_wheels(session, OLDEST.pyspark_version, NEWEST.pyspark_version)
    minors = ("--minors", str(WHEELS.parent / "beam"))
    session.run("python", "-m", "tools.check_versions", *minors, *map(str, ends))
    session.run(*mypy, "tests/contracts/test_protocols.py")
    session.run(*mypy, "packages/engine/tests", "docs/engine")


@nox.session(requires=needs("wheels"))
def docs(session: nox.Session) -> None:
    """The documents as a site, with a reference made from docstrings, in .nox/site; no link leads nowhere."""
    install(session, distribution("executor"), *group("docs"))
    # What they import of Beam writes remarks to the standard error, which are no warnings of Sphinx's.
    build = ("sphinx-build", "-j", "auto", "--fail-on-warning", "--keep-going", "-q", "-E")
    site = ("-c", "docs/site", ".", str(ROOT / ".nox" / "site"))
    session.run(*build, *site, env={"PYTHONPATH": ""})


@nox.session
def layers(session: nox.Session) -> None:
    """The contracts of .importlinter: who may import whom."""
    session.install(*group("layers"))
    session.run("lint-imports", "--no-logo", "--no-cache", env={"PYTHONPATH": SOURCES})


@nox.session
def api(session: nox.Session) -> None:
    """The public names of each package: those that others use, as listed, and changed only with release notes."""
    session.install(*group("api"))
    session.run("python", "-m", "tools.public_api", *session.posargs, env={"PYTHONPATH": ""})


@nox.session(requires=needs("wheels"))
@nox.parametrize("package", list(PACKAGES), ids=list(PACKAGES))
def purity(session: nox.Session, package: str) -> None:
    """Each wheel, alone in an empty environment: every module imports and loads nothing it must not; examples run."""
    install(session, distribution(package) + WITH_EXTRAS.get(package, ""))
    session.run("python", "-I", "tools/check_purity.py", PACKAGES[package])
    for example in RUNS_ALONE.get(package, ()):
        session.run("python", "-I", example)


@nox.session(requires=needs("wheels"))
@nox.parametrize("suite", SUITES, ids=SUITES)
def tests(session: nox.Session, suite: str) -> None:
    """Unit tests of one package on its own wheel, with what it declares and no more; or the tests between packages."""
    if suite in PACKAGES:
        run_unit_tests(session, suite)
    elif suite == "contracts":
        packages = (distribution("executor"), distribution("web"))
        install(session, *packages, *group("test"), *group("web"))
        small = ("tests/sizes", "-m", "not slow")
        suites = ("tests/contracts", "tests/hostile", *small)
        run_pytest(session, *suites, *SIDE_BY_SIDE, *session.posargs)
    else:
        session.install(
            "nox",
            *group("test"),
            *group("lint"),
            *group("layers"),
            *group("api"),
            *group("workflows"),
        )
        run_pytest(session, "tests/architecture", *SIDE_BY_SIDE, *session.posargs)


@nox.session(requires=needs("wheels"))
def web(session: nox.Session) -> None:
    """Unit tests of the web interface on its own wheel, and what it shows of Beam's own job server and, where it is found, of Prism."""
    run_unit_tests(session, "web")


@nox.session(requires=needs("wheels"))
def browser(session: nox.Session) -> None:
    """The pages of the web interface in a real Chromium: Debian's, which is installed where it may be."""
    need_chromium(session)
    install(session, distribution("web"), *group("test"), *group("web"), *group("browser"))
    run_pytest(
        session, "packages/web/tests/browser", *SIDE_BY_SIDE, "--dist=load", *session.posargs
    )


@nox.session(requires=needs("environment"), venv_backend="none")
def plain(session: nox.Session) -> None:
    """A fixed part of ``plain_all``: what is slow in several environments runs in one of them."""
    run_on_plain_processes(session, *results_of(session, "-m", "not slow"))


@nox.session(requires=needs("environment"), venv_backend="none")
def pipelines_part(session: nox.Session) -> None:
    """Those of the session ``pipelines`` in which it counts that the processes are Spark's."""
    run_pytest(session, *ON_SPARK, *SIDE_BY_SIDE, *results_of(session))


@nox.session(requires=needs("both_pysparks", "wheels"))
def lanes(session: nox.Session) -> None:
    """Some pipelines, embedded, with the loop inside a task switched off; on the lowest versions that our files name."""
    need_java(session)
    install_cell(session, OLDEST, *group("test"))
    selection = ("--without-loop", *results_of(session, "-k", "embedded"))
    run_pytest(session, *ON_LANES, *SIDE_BY_SIDE, *selection)


@nox.session(requires=needs("environment"), venv_backend="none")
def cluster(session: nox.Session) -> None:
    """Some pipelines on a cluster of three executors on this machine, also while they and workers die."""
    run_on_a_cluster(session, *IN_CI_ON_A_CLUSTER)


@nox.session(requires=needs("environment"), venv_backend="none")
def doors(session: nox.Session) -> None:
    """Ways in that are no server of their own user's, each begun as its user does; `doors_all` runs all of them."""
    selection = session.posargs or ("-m", "not slow")
    run_pytest(session, "tests/doors", *SIDE_BY_SIDE, "--dist=load", *selection)


@nox.session(requires=needs("environment"), venv_backend="none")
def validates_runner(session: nox.Session) -> None:
    """Beam's own suites against a real server on Spark, each test in one kind of environment; some also as a stream and with ``pre_optimize=none``."""
    run_beams_suites(session, *results_of(session, "-m", "not slow"))


@nox.session(requires=needs("environment"), venv_backend="none")
def go(session: nox.Session) -> None:
    """A fixed part of the Go SDK's own integration tests, and a job of Go and Python; skipped where there is no Go."""
    if shutil.which("go") is None:
        session.skip("Go was not found: install Go 1.26 or newer to run pipelines of its SDK")
    run_pytest(session, "tests/go", *results_of(session))


@nox.session(requires=needs("wheels"))
def second_runner(session: nox.Session) -> None:
    """The runner on Dask of examples/second_runner, where no PySpark is: words, a stateful stream, Beam's own suite."""
    install(session, distribution("server"), *group("test"), *group("second-runner"))
    run_pytest(session, "tests/second_runner", *session.posargs)


@nox.session(venv_backend="none")
def capabilities(session: nox.Session) -> None:
    """Compares the table of capabilities with what the sessions of pipelines came to. ``-- --write`` writes it."""
    results = [RESULTS / f"{name}.xml" for name in WITH_RESULTS]
    if missing := [path.stem for path in results if not path.exists()]:
        session.error(f"no results of {' and '.join(missing)}: run these sessions first, in full")
    session.run("python3", "tools/capabilities.py", *session.posargs, *map(str, results))


@nox.session(requires=needs("wheels"))
def wordcount(session: nox.Session) -> None:
    """The main job: count the words of real text on Spark. ``-- --input GLOB`` takes text of your own."""
    need_java(session)
    install(session, f"{distribution('executor')}[web]")
    session.run("python", "-P", "examples/wordcount.py", *session.posargs, env={"PYTHONPATH": ""})


@nox.session(requires=needs("environment"), venv_backend="none")
def kills(session: nox.Session) -> None:
    """Workers die at every step of the commit protocol, a server in a commit, and Spark; beside it one of them all at random."""
    if session.posargs:
        run_pytest(session, "tests/kills", "-m", "not slow", *session.posargs)
        return
    seed = secrets.randbelow(2**16)
    victim, environment = KILLED[seed % len(KILLED)]
    at_random = f"test_random_kills.py::test_random_kills_on_one_machine_keep_the_result_exact[{seed}-{environment}-{victim}]"
    fixed = ("test_short.py", "test_gauges.py", "test_shutdown_table.py")
    which = [f"tests/kills/{name}" for name in (*fixed, at_random)]
    run_pytest(session, *which, "--seed", str(seed), *SIDE_BY_SIDE)


@nox.session(requires=needs("environment"), venv_backend="none")
def memory_part(session: nox.Session) -> None:
    """A tenth of what `memory` measures, embedded."""
    tenth = ("--part", "0.1", "-k", "embedded and not one_key", "-s")
    run_pytest(session, "tests/memory", *(session.posargs or tenth))


@nox.session(requires=needs("environment"), venv_backend="none")
def differential_part(session: nox.Session) -> None:
    """A few of the pipelines and streams that `differential` compares, others each time."""
    run_pytest(session, "tests/differential")
    few = ("--pipelines", "20", "--streams", "10", "--batch", "10", "--environment", "LOOPBACK")
    run_python(session, "tests/differential/differential.py", *(session.posargs or few))


@nox.session(requires=needs("environment"), venv_backend="none")
def streams_and_batches_part(session: nox.Session) -> None:
    """Compare a few random streams with batches, others each time, on plain processes."""
    run_pytest(session, "tests/streams_and_batches")
    few = ("--streams=16", "--batch=3", "--drains=0.3", "--without-spark")
    compare = "tests/streams_and_batches/streams_and_batches.py"
    run_python(session, compare, *(session.posargs or few))


@nox.session(requires=needs("wheels"))
def outages_part(session: nox.Session) -> None:
    """A few of the outages that `outages` has, others each time, on plain processes."""
    few = ("--rounds=1", "--lengths=3", "--site=data store", "--site=state store", "--site=service")
    run_outages(session, *(session.posargs or few))
    run_pytest(session, "tests/outages", f"--ignore={OUTAGES_BEYOND_THE_LIMIT}")
