"""Helpers of nox sessions: paths, installation of wheels, and calls of pytest."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import nox
from nox.command import CommandFailed

from tools.bytecode import link_bytecode, make_bytecode_variables
from tools.siblings import find_oldest_releases, unpack_release
from tools.side_by_side import PREPARED, REPEATED
from tools.side_by_side import PROCESSES as PROCESSES_OF_A_SESSION

ROOT = Path(__file__).parents[1]
WHEELS = ROOT / ".nox" / "dist"
CONSTRAINTS = WHEELS / "constraints.txt"
RELEASE = ROOT / ".nox" / "distributions"
# Folder for the caches of tools, so that tools don't write caches into the source tree.
KEPT = ROOT / ".nox" / "kept"

# Packages from the bottom layer upwards: folder -> import name.
PACKAGES = {
    "urns": "beam_runner_urns",
    "model": "beam_runner_model",
    "engine": "beam_runner_engine",
    "worker": "beam_runner_worker",
    "embedded": "beam_runner_embedded",
    "storage": "beam_runner_storage",
    "data": "beam_runner_data",
    "jobservices": "beam_runner_jobservices",
    "planner": "beam_runner_planner",
    "runtime": "beam_runner_runtime",
    "driver": "beam_runner_driver",
    "server": "beam_runner_server",
    "io": "beam_spark_io",
    "executor": "beam_spark_executor",
    "web": "beam_runner_web",
}
# Additional test dependencies: Beam to compare with, which the packages themselves must not depend
# on, a browser driver, or a data store.
MORE_FOR_TESTS = {
    "urns": "oracle",
    "model": "oracle",
    "engine": "oracle",
    "storage": "stores",
    "planner": "planner",
    "runtime": "runtime",
    "driver": "driver",
    "server": "server",
    "io": "io",
    "executor": "executor",
    "web": "web",
}
# Extras of a package that some of its modules import.
WITH_EXTRAS = {"server": "[openlineage,opentelemetry]", "storage": "[hdfs,stores]"}
# Documentation examples that need only the wheel of their package.
RUNS_ALONE = {"engine": ("docs/engine/in_memory_runner.py",)}
SOURCES = os.pathsep.join(str(ROOT / "packages" / name / "src") for name in PACKAGES)
# The session `web` runs the tests of the web interface.
SUITES = (*(name for name in PACKAGES if name != "web"), "contracts", "architecture")
# Use more than two test processes, because tests mostly wait: with two processes, half of two cores
# was idle.
PROCESSES = int(os.environ.get(PROCESSES_OF_A_SESSION) or min(6, (os.cpu_count() or 2) * 3 // 2))
# Tests of a file share their fixtures in one process, unless a later --dist changes this.
SIDE_BY_SIDE = (f"--numprocesses={PROCESSES}", "--dist=loadfile")
# Packages whose tests use much less CPU than the imports of a second process.
IN_ONE_PROCESS = ("urns", "model", "data", "io")
OLDEST_JAVA = 17
# The environment of the session `environment`. Sessions without a separate environment share it.
SHARED_ENVIRONMENT = ROOT / ".nox" / "environment"
SHARED_PYTHON = SHARED_ENVIRONMENT / "bin" / "python"
CLUSTER = "tests/pipelines/cluster"
# The fixed corpus of pipelines. Test ids contain environment and topic.
CORPUS = "tests/pipelines/test_corpus.py::test_corpus_outputs_equal_those_of_the_beam_runner"
# A server with the S3 protocol that persists its data, built from source.
S3_SERVER = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
# The renderer of charts, built from source.
HELM = "helm.sh/helm/v3/cmd/helm@v3.19.5"
# Victims of random kills in CI: one victim for each run.
KILLED = [(v, e) for v in ("bounded", "unbounded") for e in ("embedded", "PROCESS")]
KILLS_ON_A_CLUSTER = (
    "tests/kills/test_random_kills.py::test_random_kills_on_a_cluster_keep_the_result_exact"
)
# Results of the pipeline tests, for the table of capabilities.
RESULTS = ROOT / ".nox" / "results"
WITH_RESULTS = ("plain", "pipelines_part", "lanes", "cluster", "validates_runner", "go")
# Pipelines that must behave the same on a cluster and on one machine, and the part of them that CI
# runs.
ON_A_CLUSTER = tuple(
    f"tests/pipelines/test_{name}.py"
    for name in ("lost_workers", "grouping", "transforms", "corpus", "files")
)
IN_CI_ON_A_CLUSTER = (
    *(
        f"tests/pipelines/test_{name}"
        for name in (
            "lost_workers.py::test_committed_counters_are_exact_if_workers_are_lost[embedded]",
            "lost_workers.py::test_process_exit_in_teardown_leaves_the_job_successful[PROCESS]",
            "grouping.py::test_keys_with_equal_encodings_are_grouped_together[embedded]",
            "grouping.py::test_combine_lifted_by_the_client_gives_exact_results",
            "grouping.py::test_consecutive_groupings_lose_no_value",
        )
    ),
    f"{CORPUS}[embedded-side inputs]",
)
# Pipelines that start, share, block and kill processes, or use features of Spark. CI also runs them
# on Spark.
ON_SPARK = tuple(
    f"tests/pipelines/test_{name}"
    for name in (
        "cancel.py::test_stream_is_cancelled_within_five_seconds",
        *(
            f"cancel.py::test_batch_job_is_cancelled_within_five_seconds[embedded-{how}]"
            for how in ("Sleep", "BlockInC")
        ),
        "failures.py::test_user_code_that_breaks_its_process_fails_its_job",
        "failures.py::test_process_exit_fails_the_job_after_retries_as_a_runner_error",
        "failures.py::test_other_bundles_of_a_failed_job_stop_without_a_crash_report",
        "isolation.py::test_jobs_of_programs_with_the_same_module_name_use_their_own_module[as-users-do-at-once]",
        "leftovers.py::test_stopped_server_leaves_no_process_and_no_folder[SIGTERM]",
        "leftovers.py::test_stopped_server_leaves_no_process_and_no_folder[the server is killed]",
        "lifecycle.py::test_teardown_is_called_once_for_each_setup[embedded]",
        "lifecycle.py::test_teardown_is_called_after_a_failure[embedded]",
        "logging.py::test_log_records_reach_the_message_stream[embedded]",
        "many_jobs.py",
        *(
            f"sections.py::test_section_{name}[embedded]"
            for name in (
                "with_a_tree_of_groupings_is_one_spark_job",
                "with_a_killed_process_gives_exact_results",
                "is_cancelled_within_five_seconds",
                "failure_in_user_code_names_the_step",
            )
        ),
        "sections.py::test_section_with_state_timers_and_side_inputs_gives_exact_results",
        "spark_streams.py",
        "tables.py",
    )
)
# Small pipelines, which a single worker process would run completely (the loop inside a task). They
# must behave the same if the server distributes their bundles.
ON_LANES = (
    *(f"tests/pipelines/test_{name}.py" for name in ("state", "requirements", "splittable")),
    *(f"{CORPUS}[embedded-{topic}]" for topic in ("state", "windows")),
)

# Bounded pipelines that need no store for data between stages, because their rows pass through
# Spark's shuffle.
WITHOUT_A_STORE = (
    "tests/pipelines/test_grouping.py",
    *(f"{CORPUS}[embedded-{topic}]" for topic in ("groups", "windows")),
)
# Pipelines without a bounded part, or with a tiny bounded part.
STREAMS = tuple(
    f"tests/pipelines/test_{name}.py"
    for name in (
        *("commits_of_streams", "drain", "merging_streams", "streams"),
        *("unbounded", "updated_side_inputs"),
    )
)
# Tests of features that stages lack if they run together as one Spark job (a section).
ONLY_ON_LANES = (
    "test_order.py::test_few_elements_reach_state_in_order",  # order
    "test_order.py::test_few_lines_are_written_to_one_file",  # order
    "test_separation.py::test_elements_of_a_bundle_are_split_among_bundles",  # splits
    "test_separation.py::test_restriction_of_one_element_is_split_into_parallel_parts",  # splits
    "test_separation.py::test_restrictions_of_a_bundle_are_split_among_bundles",  # splits
    "test_splits.py::test_long_bundle_is_split_among_idle_workers[embedded-elements]",  # splits
    "test_splits.py::test_long_bundle_is_split_among_idle_workers[embedded-restriction]",  # splits
)


def list_sessions_to_run_first(*sessions: str) -> list[str]:
    """Returns the sessions that must run before another session. The list is empty if they have run already."""
    return [] if os.environ.get(PREPARED) else list(sessions)


def read_group(name: str) -> tuple[str, ...]:
    """Returns the requirements of a dependency group of the root's ``pyproject.toml``."""
    return nox.project.dependency_groups(nox.project.load_toml(ROOT / "pyproject.toml"), name)


def read_project_table(package: str) -> dict[str, Any]:
    """Returns the table ``project`` of a package's ``pyproject.toml``."""
    pyproject = nox.project.load_toml(ROOT / "packages" / package / "pyproject.toml")
    return cast("dict[str, Any]", pyproject["project"])


def distribution_name(package: str) -> str:
    return str(read_project_table(package)["name"])


def install_requirements(session: nox.Session, *requirements: str, compiled: bool = False) -> None:
    """Installs requirements. Our packages and pyspark come from the wheels that `wheels` built.

    Args:
        session: nox session.
        requirements: requirements to install.
        compiled: whether to compile all modules, as pip does, which takes 9 s of CPU for Beam.
            Otherwise the modules of the shared environment are compiled already, and the first
            process that imports another module compiles it.
    """
    environment = {"UV_COMPILE_BYTECODE": "1" if compiled else "0"}
    session.install(*requirements, "--constraint", str(CONSTRAINTS), env=environment)
    if not compiled:
        link_bytecode(SHARED_ENVIRONMENT, Path(session.virtualenv.location))


def ensure_java(session: nox.Session) -> None:
    """Installs a Java if the machine has none. Fails the session if Spark can't run on the installed Java."""
    home = os.environ.get("JAVA_HOME")
    command = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if not home and command is None:
        session.install(*read_project_table("executor")["optional-dependencies"]["java"])
        return
    found = f"JAVA_HOME={home} holds none"
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


def require_maven(session: nox.Session) -> None:
    """Skips the session if Maven is missing."""
    if shutil.which("mvn") is None:
        session.skip("NOT RUN: Maven was not found: install maven")


def ensure_chromium(session: nox.Session) -> None:
    """Installs Debian's Chromium if it is missing and the user may install it; otherwise skips the session."""
    if _find_chromium():
        return
    asked = () if os.geteuid() == 0 else ("sudo", "--non-interactive")
    if all(shutil.which(tool) for tool in ("apt-get", *asked[:1])):
        apt = (*asked, "apt-get", "--quiet", "--yes")
        for step in (("update",), ("install", "--no-install-recommends", "chromium")):
            session.run(*apt, *step, external=True, silent=True, success_codes=range(256))
    if not _find_chromium():
        session.skip("NOT RUN: there is no chromium, and `apt-get install chromium` can't be done")


def _find_chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


def explain_missing_machines(*tools: str) -> str:
    """Returns why the tests can't create machines from namespaces, or which tool is missing; empty if they can."""
    if os.geteuid() != 0:
        return "only root may make the namespaces that stand for machines"
    missing = [tool for tool in ("ip", "unshare", "nsenter", *tools) if shutil.which(tool) is None]
    return f"there is no {', '.join(missing)}" if missing else ""


def ensure_machines(session: nox.Session, *tools: str) -> None:
    """Installs the needs of tests on namespace machines; skips the session if namespaces are not available."""
    if reason := explain_missing_machines(*tools):
        session.skip(f"NOT RUN: {reason}")
    ensure_java(session)
    tests = (*read_group("test"), *read_group(MORE_FOR_TESTS["executor"]))
    install_requirements(session, f"{distribution_name('executor')}[stores]", *tests)


def run_on_machines(session: nox.Session, *arguments: str) -> None:
    """Runs tests on machines made of namespaces, with an S3 server; skips the session if namespaces are not available."""
    ensure_machines(session, "go")
    try:
        # Don't use nox's temporary folder, because the paths of Java's sockets would be too long.
        fetch = ("go", "install", S3_SERVER)
        session.run(*fetch, env={"GOBIN": session.bin}, external=True, silent=True)
    except CommandFailed:
        session.skip("NOT RUN: Go could not fetch the server of S3's protocol, see above")
    run_pytest(session, *arguments)


def make_pytest_arguments(session: nox.Session, *selection: str) -> tuple[str, ...]:
    """Returns the arguments of pytest: the session's selection with stored results, or the arguments of the command line."""
    repeated = get_repeated_results(session.name)
    results = repeated if REPEATED in os.environ else RESULTS / f"{session.name}.xml"
    if results != repeated:
        repeated.unlink(missing_ok=True)
    return tuple(session.posargs) or (*selection, f"--junitxml={results}")


def get_repeated_results(name: str) -> Path:
    """Returns the path of the results of the tests of a session that ran again because they failed."""
    return RESULTS / "repeated" / f"{name}.xml"


def run_pytest(session: nox.Session, *arguments: str, **environment: str) -> None:
    """Runs pytest so that it can import only installed packages: no source tree, no current folder."""
    cache = f"cache_dir={KEPT / 'pytest' / session.name}"
    selection = ("--last-failed",) if REPEATED in os.environ else ()
    run_python(session, "-m", "pytest", "-o", cache, *selection, *arguments, **environment)


def run_python(session: nox.Session, *arguments: str, **environment: str) -> None:
    """Runs the Python of the session, or the shared Python, without the source tree and the current folder."""
    environment.setdefault("PYTHONPATH", "")
    environment |= {
        "HYPOTHESIS_STORAGE_DIRECTORY": str(KEPT / "hypothesis"),
        # Java's optimizing compiler costs more than it saves in a short test.
        "SPARK_SUBMIT_OPTS": f"-XX:TieredStopAtLevel=1 -Dderby.stream.error.file={KEPT / 'derby.log'}",
    }
    python = "python"
    # Never write the bytecode of tests into the source tree.
    if session.virtualenv.venv_backend != "none":
        environment |= make_bytecode_variables(Path(session.virtualenv.location))
    else:
        python = str(SHARED_PYTHON)
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        environment["PATH"] = os.pathsep.join((str(SHARED_PYTHON.parent), os.environ["PATH"]))
    session.run(python, "-P", *arguments, env=environment)


def run_unit_tests(session: nox.Session, package: str) -> None:
    """Runs the unit tests of a package on its wheel with its declared dependencies only, then again
    with the oldest allowed versions of the project's other packages.
    """
    more = read_group(MORE_FOR_TESTS[package]) if package in MORE_FOR_TESTS else ()
    install_requirements(session, distribution_name(package), *read_group("test"), *more)
    processes = () if package in IN_ONE_PROCESS else SIDE_BY_SIDE
    run_pytest(session, f"packages/{package}/tests", *processes, *session.posargs)
    if install_oldest_siblings(session, package):
        run_pytest(session, f"packages/{package}/tests", *processes, *session.posargs)


def install_oldest_siblings(session: nox.Session, package: str) -> bool:
    """Replaces our packages with the oldest releases that a package allows.

    Returns:
        Whether a release older than the repository exists.
    """
    releases = find_oldest_releases(ROOT, package)
    if not releases:
        session.log(f"{package}: no sibling has an older release, so its oldest is the current one")
        return False
    wheels = Path(session.create_tmp()).absolute() / "siblings"
    session.install("hatchling")
    for sibling, tag in releases.items():
        with session.chdir(unpack_release(ROOT, sibling, tag, wheels / tag)):
            session.run("hatchling", "build", "-t", "wheel", "-d", str(wheels), silent=True)
    session.install(*map(str, sorted(wheels.glob("*.whl"))))
    return True


def run_benchmark(session: nox.Session, name: str, extra: str = "") -> None:
    """Runs a program of tests/bench with an extra of the executor's wheel."""
    ensure_java(session)
    install_requirements(session, distribution_name("executor") + extra, compiled=True)
    session.run("python", f"tests/bench/{name}.py", *session.posargs, env={"PYTHONPATH": ""})


def run_on_plain_processes(session: nox.Session, *selection: str) -> None:
    """Runs pipelines without Spark and Java: all except tests of Spark's tables and streams."""
    of_spark = (f"tests/pipelines/test_{name}.py" for name in ("tables", "spark_streams"))
    ignored = (f"--ignore={file}" for file in (CLUSTER, *of_spark))
    # Run one more process than usual, because these tests mostly wait.
    more = (*SIDE_BY_SIDE, f"--numprocesses={PROCESSES + 1}")
    run_pytest(session, "tests/pipelines", *more, *ignored, "--without-spark", *selection)


def run_on_a_cluster(session: nox.Session, *files: str) -> None:
    """Runs tests on a local Spark cluster, whose executors share only a data folder with the server."""
    master = "--spark-master-url=local-cluster[3,1,1024]"
    store = f"--data-dir=file://{Path(session.create_tmp()).absolute()}/store"
    run_pytest(session, CLUSTER, *files, master, store, *make_pytest_arguments(session))


def run_beam_test_suites(session: nox.Session, *arguments: str) -> None:
    run_pytest(session, "tests/validates_runner", *SIDE_BY_SIDE, "--dist=load", *arguments)


OUTAGES_BEYOND_THE_LIMIT = "tests/outages/test_outage_limit.py"
"""Test that waits for minutes: only the long session runs it."""


def run_outages(session: nox.Session, *arguments: str) -> None:
    """Runs tests in which services that a server needs, such as an S3 server, are stopped."""
    if "--spark" in arguments:
        ensure_java(session)
    install_requirements(session, *read_group("test"), *read_group("executor"))
    run_python(session, "tests/outages/outages.py", *arguments)
