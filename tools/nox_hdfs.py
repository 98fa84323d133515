"""The session of HDFS, which a bare ``nox`` and CI leave out."""

from __future__ import annotations

import shutil

import nox

from tools.nox_support import (
    MORE_FOR_TESTS,
    distribution,
    group,
    install,
    need_java,
    run_pytest,
)


@nox.session(requires=["wheels"], default=False)
def hdfs(session: nox.Session) -> None:
    """Hadoop's own servers: the contract of stores, refusals, faults; then as `clusters`, with HDFS in place of S3. Needs Maven, and root for the second."""
    if shutil.which("mvn") is None:
        session.skip("NOT RUN: Maven was not found: install maven")
    need_java(session)
    tests = (*group("test"), *group(MORE_FOR_TESTS["executor"]))
    install(session, f"{distribution('executor')}[hdfs,stores]", *tests)
    run_pytest(session, "tests/hdfs", "-s")
    run_pytest(session, "tests/clusters", "-s", "--store=hdfs", *session.posargs)
