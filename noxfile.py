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
import re
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import nox

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.stop_on_first_error = False
# As pip does: behind a company's proxy only the system's certificates are right.
os.environ.setdefault("UV_SYSTEM_CERTS", "true")

ROOT = Path(__file__).parent
WHEELS = ROOT / ".nox" / "dist"
CONSTRAINTS = WHEELS / "constraints.txt"

# From the bottom layer upwards: folder -> import name.
PACKAGES = {
    "urns": "beam_runner_urns",
    "engine": "beam_runner_engine",
    "worker": "beam_runner_worker",
    "jobservices": "beam_runner_jobservices",
    "executor": "beam_spark_executor",
    "web": "beam_runner_web",
}
# What their tests need beside pytest: Beam to compare with, on which the packages themselves must not depend, or a browser's like.
MORE_FOR_TESTS = {"urns": "oracle", "engine": "oracle", "web": "web"}
# These install and import alone: they are made to be used without this runner.
REUSABLE = ("urns", "engine", "worker", "jobservices", "web")
# Examples of their documentation that need nothing but the package's own wheel.
RUNS_ALONE = {"engine": ("docs/engine/in_memory_runner.py",)}
SOURCES = os.pathsep.join(str(ROOT / "packages" / name / "src") for name in PACKAGES)
SUITES = (*PACKAGES, "contracts", "architecture")
# A process for each core; the tests of a file share what they have set up.
SIDE_BY_SIDE = ("--numprocesses=auto", "--maxprocesses=4", "--dist=loadfile")
OLDEST_JAVA = 17
CLUSTER = "tests/pipelines/cluster"
# What is killed at random in CI: one of these each time.
KILLED = [(v, e) for v in ("bounded", "unbounded") for e in ("embedded", "PROCESS")]
# What the tests of whole pipelines came to, for the table of capabilities.
RESULTS = ROOT / ".nox" / "results"
WITH_RESULTS = ("pipelines", "lanes", "cluster", "validates_runner", "go")
# Pipelines that must do on a cluster what they do on one machine; the first few are part of CI.
ON_A_CLUSTER = tuple(
    f"tests/pipelines/test_{name}.py"
    for name in ("lost_workers", "grouping", "transforms", "side_inputs", "files")
)
IN_CI_ON_A_CLUSTER = ON_A_CLUSTER[:2]
# Pipelines that the loop inside a task would run as a whole, and that must do the same on lanes.
ON_LANES = tuple(
    f"tests/pipelines/test_{name}.py"
    for name in ("state", "windows", "requirements", "side_inputs", "splittable")
)

# What a bare `nox` and CI run.
nox.options.sessions = [
    "lint",
    "types",
    "layers",
    "purity",
    "tests",
    "browser",
    "pipelines",
    "lanes",
    "cluster",
    "kills",
    "memory_part",
    "validates_runner",
    "go",
    "wordcount",
    "capabilities",
]


def group(name: str) -> tuple[str, ...]:
    """Requirements of a dependency group of the root's ``pyproject.toml``."""
    return nox.project.dependency_groups(nox.project.load_toml(ROOT / "pyproject.toml"), name)


def project(package: str) -> dict[str, Any]:
    """What a package's ``pyproject.toml`` says of itself."""
    pyproject = nox.project.load_toml(ROOT / "packages" / package / "pyproject.toml")
    return cast("dict[str, Any]", pyproject["project"])


def distribution(package: str) -> str:
    return str(project(package)["name"])


def install(session: nox.Session, *requirements: str) -> None:
    """Installs requirements, taking our packages and pyspark from the wheels that were built here."""
    session.install(*requirements, "--constraint", str(CONSTRAINTS))


@nox.session(default=False)
def wheels(session: nox.Session) -> None:
    """Build the wheels that the other sessions install: our packages, and pyspark, which PyPI has as source only."""
    session.install("hatchling", "pip", "setuptools", "wheel")
    WHEELS.mkdir(parents=True, exist_ok=True)
    for stale in WHEELS.glob("beam_*.whl"):
        stale.unlink()
    for package in PACKAGES:
        with session.chdir(ROOT / "packages" / package):
            session.run("hatchling", "build", "-t", "wheel", "-d", str(WHEELS), silent=True)
    if not list(WHEELS.glob("pyspark-*.whl")):
        needed = project("executor")["dependencies"]
        pyspark = next(text for text in needed if text.startswith("pyspark"))
        session.run(
            *("python", "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(WHEELS), pyspark),
            silent=True,
        )
    lines = [
        f"{wheel.name.split('-')[0].replace('_', '-')} @ {wheel.as_uri()}"
        for wheel in sorted(WHEELS.glob("*.whl"))
    ]
    CONSTRAINTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def need_java(session: nox.Session) -> None:
    """Ends the session with what to install, if there is no Java that Spark can run on."""
    home = os.environ.get("JAVA_HOME")
    command = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    found = f"JAVA_HOME={home} holds none" if home else "none was found"
    if command:
        answer = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
        version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
        if version and int(version[1]) >= OLDEST_JAVA:
            return
        found = f"{command} is Java {version[1]}" if version else f"{command} does not run"
    session.error(
        f"Spark needs Java {OLDEST_JAVA} or newer and {found}: install it, for example with "
        f"`apt-get install openjdk-{OLDEST_JAVA}-jre-headless`, or set JAVA_HOME to where it is"
    )


@nox.session
def lint(session: nox.Session) -> None:
    """Style, likely bugs, banned names of each layer, limits of size, and tests that look at nothing."""
    session.install(*group("lint"))
    session.run("python", "tools/check_sizes.py")
    session.run("python", "tools/check_tests.py")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session(requires=["wheels"])
def types(session: nox.Session) -> None:
    """Types of every package, of the tools, the examples and this file."""
    install(
        session,
        f"{distribution('executor')}[web]",
        "nox",
        *group("types"),
        *group("test"),
        *group("layers"),
    )
    packages = [option for name in PACKAGES.values() for option in ("--package", name)]
    session.run("mypy", *packages)
    session.run("mypy", "noxfile.py", "tools", "examples")
    session.run("mypy", "tests/contracts/test_protocols.py")
    session.run("mypy", "packages/engine/tests", "docs/engine")


@nox.session
def layers(session: nox.Session) -> None:
    """The contracts of .importlinter: who may import whom."""
    session.install(*group("layers"))
    session.run("lint-imports", "--no-logo", "--no-cache", env={"PYTHONPATH": SOURCES})


@nox.session(requires=["wheels"])
@nox.parametrize("package", REUSABLE, ids=REUSABLE)
def purity(session: nox.Session, package: str) -> None:
    """Each reusable wheel, alone in an empty environment: every module imports and loads nothing it must not; examples run."""
    install(session, distribution(package))
    session.run("python", "-I", "tools/check_purity.py", PACKAGES[package])
    for example in RUNS_ALONE.get(package, ()):
        session.run("python", "-I", example)


def results_of(session: nox.Session, *selection: str) -> tuple[str, ...]:
    """Which tests of a session run: all it selects, with their results kept; or what the command line says."""
    results = f"--junitxml={RESULTS / f'{session.name}.xml'}"
    return tuple(session.posargs) or (*selection, results)


def run_pytest(session: nox.Session, *arguments: str) -> None:
    """Runs pytest so that only what is installed can be imported: no source tree, no current folder."""
    session.run("python", "-P", "-m", "pytest", *arguments, env={"PYTHONPATH": ""})


@nox.session(requires=["wheels"])
@nox.parametrize("suite", SUITES, ids=SUITES)
def tests(session: nox.Session, suite: str) -> None:
    """Unit tests of one package on its own wheel, with what it declares and no more; or the tests between packages."""
    if suite in PACKAGES:
        more = group(MORE_FOR_TESTS[suite]) if suite in MORE_FOR_TESTS else ()
        install(session, distribution(suite), *group("test"), *more)
        run_pytest(session, f"packages/{suite}/tests", *SIDE_BY_SIDE, *session.posargs)
    elif suite == "contracts":
        install(session, distribution("executor"), *group("test"))
        run_pytest(session, "tests/contracts", "tests/hostile", *session.posargs)
    else:
        session.install("nox", *group("test"), *group("lint"), *group("layers"))
        run_pytest(session, "tests/architecture", *SIDE_BY_SIDE, *session.posargs)


@nox.session(requires=["wheels"], default=False)
def damages(session: nox.Session) -> None:
    """1,200 damages each to journal and job list of a server that was closed or killed, none of them silent; CI runs some of them."""
    install(session, distribution("executor"), *group("test"))
    count = os.environ.get("BEAM_DAMAGES", "1200")
    suites = ("executor/tests/journal/test_damage.py", "jobservices/tests/test_damages.py")
    tests = (*(f"packages/{suite}" for suite in suites), "-s", *session.posargs)
    session.run(
        "python", "-P", "-m", "pytest", *tests, env={"PYTHONPATH": "", "BEAM_DAMAGES": count}
    )


@nox.session(requires=["wheels"], default=False)
def hostile(session: nox.Session) -> None:
    """20,000 mutated pipelines, 100,000 hostile requests; CI has some. ``-- --requests N --seed S --hypothesis-seed=N`` runs others."""
    install(session, distribution("executor"), *group("test"))
    examples = os.environ.get("BEAM_HOSTILE_EXAMPLES", "20000")
    tests = ("packages/executor/tests/translation/test_mutated_pipelines.py", "tests/hostile", "-s")
    count = () if "--requests" in session.posargs else ("--requests=100000",)
    session.run(
        *("python", "-P", "-m", "pytest", *tests, "--timeout=14400", *count, *session.posargs),
        env={"PYTHONPATH": "", "BEAM_HOSTILE_EXAMPLES": examples},
    )


@nox.session(requires=["wheels"])
def browser(session: nox.Session) -> None:
    """The pages of the web interface in a real Chromium, which is to be there: `apt-get install chromium`."""
    if not (shutil.which("chromium") or shutil.which("chromium-browser")):
        session.skip("NOT RUN: there is no chromium: `apt-get install chromium` installs it")
    install(session, distribution("web"), *group("test"), *group("web"), *group("browser"))
    run_pytest(session, "packages/web/tests/browser", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def web_pictures(session: nox.Session) -> None:
    """Takes the pictures of docs/web.md from real jobs."""
    need_java(session)
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
    session.run(
        *("python", "-P", "-m", "pytest", "packages/engine/tests", "--timeout=14400", *arguments),
        env={"PYTHONPATH": "", "BEAM_ENGINE_RUNS": runs},
    )


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


@nox.session(requires=["wheels"])
def pipelines(session: nox.Session) -> None:
    """Whole pipelines against a real server on Spark."""
    need_java(session)
    install(session, distribution("executor"), *group("test"), *group("pipelines"))
    run_pytest(session, "tests/pipelines", f"--ignore={CLUSTER}", *results_of(session))


@nox.session(requires=["wheels"])
def lanes(session: nox.Session) -> None:
    """Some pipelines, embedded, with the loop inside a task switched off."""
    need_java(session)
    install(session, distribution("executor"), *group("test"))
    run_pytest(session, *ON_LANES, "--without-loop", *results_of(session, "-k", "embedded"))


@nox.session(requires=["wheels"])
def cluster(session: nox.Session) -> None:
    """Some pipelines on a cluster of two executors on this machine, also while they and workers die."""
    run_on_a_cluster(session, *IN_CI_ON_A_CLUSTER)


@nox.session(requires=["wheels"], default=False)
def cluster_all(session: nox.Session) -> None:
    """More pipelines on a cluster of two executors on this machine."""
    run_on_a_cluster(session, *ON_A_CLUSTER)


def run_on_a_cluster(session: nox.Session, *files: str) -> None:
    need_java(session)
    install(session, distribution("executor"), *group("test"))
    master = "--spark-master-url=local-cluster[2,1,1024]"
    run_pytest(session, CLUSTER, *files, master, *results_of(session))


@nox.session(requires=["wheels"])
def validates_runner(session: nox.Session) -> None:
    """Beam's own suites against a real server on Spark, each test in one kind of environment."""
    run_beams_suites(session, *results_of(session, "-m", "not slow"))


@nox.session(requires=["wheels"], default=False)
def validates_runner_all(session: nox.Session) -> None:
    """Beam's own suites against a real server on Spark, each test in both kinds of environment."""
    run_beams_suites(session, *session.posargs)


def run_beams_suites(session: nox.Session, *arguments: str) -> None:
    need_java(session)
    install(session, distribution("executor"), *group("test"), *group("validates-runner"))
    run_pytest(session, "tests/validates_runner", *arguments)


@nox.session(requires=["wheels"])
def go(session: nox.Session) -> None:
    """A fixed part of the Go SDK's own integration tests, and a job of Go and Python; skipped where there is no Go."""
    need_java(session)
    if shutil.which("go") is None:
        session.skip("Go was not found: install Go 1.24 or newer to run pipelines of its SDK")
    install(session, distribution("executor"), *group("test"), *group("validates-runner"))
    run_pytest(session, "tests/go", *results_of(session))


@nox.session(venv_backend="none")
def capabilities(session: nox.Session) -> None:
    """Compares the table of capabilities with what the sessions of pipelines came to. ``-- --write`` writes it."""
    results = [RESULTS / f"{name}.xml" for name in WITH_RESULTS]
    if missing := [path.stem for path in results if not path.exists()]:
        session.error(f"no results of {' and '.join(missing)}: run these sessions first, in full")
    session.run("python3", "tools/capabilities.py", *session.posargs, *map(str, results))


@nox.session(requires=["wheels"], default=False)
def bench(session: nox.Session) -> None:
    """This runner beside FnApiRunner and, where it is found, Prism. ``-- --write`` writes the table; ``-- --help`` tells more."""
    need_java(session)
    install(session, distribution("executor"))
    session.run("python", "tests/bench/bench.py", *session.posargs, env={"PYTHONPATH": ""})


@nox.session(requires=["wheels"])
def wordcount(session: nox.Session) -> None:
    """The main job: count the words of real text on Spark. ``-- --input GLOB`` takes text of your own."""
    need_java(session)
    install(session, f"{distribution('executor')}[web]")
    session.run("python", "-P", "examples/wordcount.py", *session.posargs, env={"PYTHONPATH": ""})


@nox.session(requires=["wheels"])
def kills(session: nox.Session) -> None:
    """Workers die at every step of the commit protocol, a server in a commit, and Spark; and one of them all at random."""
    kill(session, "tests/kills", "-m", "not slow")
    if not session.posargs:
        seed = secrets.randbelow(2**16)
        victim, environment = KILLED[seed % len(KILLED)]
        session.log(f"random kills: --seed {seed} -k '{victim} and {environment}'")
        again = ("--seed", str(seed), "-k", f"{victim} and {environment}")
        kill(session, "tests/kills/test_random_kills.py", *again)


@nox.session(requires=["wheels"], default=False)
def kills_long(session: nox.Session) -> None:
    """Servers, Spark, workers and SDK harnesses die everywhere and at any time. ``-- --rounds N --seed S`` for more."""
    names = ("short", "crash_points", "callbacks", "zombies", "random_kills", "kills_of_a_drain")
    kill(session, *(f"tests/kills/test_{name}.py" for name in names))


@nox.session(requires=["wheels"], default=False)
def kills_on_a_cluster(session: nox.Session) -> None:
    """Random kills, of executors too, on a cluster of two executors on this machine. ``-- --rounds N --seed S`` for more."""
    kill(session, "tests/kills/test_random_kills_on_a_cluster.py")


@nox.session(requires=["wheels"])
def memory_part(session: nox.Session) -> None:
    """A tenth of what `memory` measures, embedded."""
    need_java(session)
    install(session, distribution("executor"), *group("test"))
    tenth = ("--part", "0.1", "-k", "embedded and not one_key", "-s")
    run_pytest(session, "tests/memory", *(session.posargs or tenth))


@nox.session(requires=["wheels"], default=False)
def memory(session: nox.Session) -> None:
    """Gigabytes in a server that may use two, measured; takes many minutes. ``-- --part 0.1`` for less."""
    need_java(session)
    install(session, distribution("executor"), *group("test"))
    run_pytest(session, "tests/memory", "-s", *session.posargs)


@nox.session(requires=["wheels"], default=False)
def soak(session: nox.Session) -> None:
    """An hour of a steady stream in which something dies every 30 s. ``-- --minutes N`` for less, ``--seed S`` for others."""
    kill(session, "tests/kills/test_soak.py", "-s")


def kill(session: nox.Session, *arguments: str) -> None:
    need_java(session)
    install(session, distribution("executor"), *group("test"))
    run_pytest(session, *arguments, *session.posargs)
