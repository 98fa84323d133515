"""Nox sessions that measure: benchmarks beside other runners, and simulations. CI runs none of them."""

from __future__ import annotations

import os

import nox

from tools.nox_support import ROOT, run_benchmark, run_python


@nox.session(requires=["wheels"], default=False)
def bench(session: nox.Session) -> None:
    """Compares this runner with FnApiRunner and, if installed, Prism. ``-- --write`` writes the table; ``-- --pages`` compares runs with and without web pages."""
    run_benchmark(session, "bench", "[web]")


@nox.session(requires=["wheels"], default=False)
def bench_starts(session: nox.Session) -> None:
    """Measures a new program's first pipeline on several runners, and a pipeline in a warm program. ``-- --prism PATH`` adds Prism."""
    run_benchmark(session, "starts")


@nox.session(requires=["wheels"], default=False)
def bench_streams(session: nox.Session) -> None:
    """Compares stream latency and throughput with Spark's transformWithState and, if installed, Prism. ``-- --write`` writes the table."""
    run_benchmark(session, "streams")


@nox.session(requires=["wheels"], default=False)
def bench_tables(session: nox.Session) -> None:
    """Reads five million rows of Parquet with Spark's readers in a pipeline, with Beam's, and by hand. ``-- --rows N`` changes the number."""
    run_benchmark(session, "tables")


@nox.session(requires=["environment"], venv_backend="none", default=False)
def scale(session: nox.Session) -> None:
    """Measures the server's CPU for a bundle with up to thousands of simulated worker processes. ``-- --lanes N --jobs N`` changes the numbers."""
    folders = (str(ROOT / "tests" / name) for name in ("doubles", "support"))
    run_python(
        session, "tests/scale/scale.py", *session.posargs, PYTHONPATH=os.pathsep.join(folders)
    )
