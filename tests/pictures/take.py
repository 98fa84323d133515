"""Takes the pictures of docs/how-to/web-interface.md from real jobs: ``python tests/pictures/take.py docs/web``.

The program starts a job server with its web interface, and runs three pipelines. It takes pictures
of five pages in Chromium, light and dark.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from playwright.sync_api import sync_playwright

PIPELINES = Path(__file__).parent / "pipelines.py"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
START_SECONDS = 180.0


@contextmanager
def job_server(log: Path) -> Iterator[tuple[str, str]]:
    """Yields the addresses of a job server and of its pages."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "beam_spark_executor.cli",
        "--job-port=0",
        "--web-port=0",
    ]
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r" at (\S+) \(.*; its jobs are shown at (\S+)/$", line.strip())
            if found is None:
                raise SystemExit(f"the server has no pages: {line}{log.read_text()[-2000:]}")
            yield found[1], found[2]
        finally:
            process.terminate()


def wait_for(what: str, condition: Callable[[], Any]) -> Any:
    """Returns the first true result of a condition; exits the program after three minutes."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.5)
    raise SystemExit(f"not within {START_SECONDS:.0f} s: {what}")


def take(browser: Any, url: str, file: Path, scheme: str) -> None:
    context = browser.new_context(
        viewport={"width": 1200, "height": 760}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(url)
    page.wait_for_timeout(3_000)  # time for two samples of the job, which the rates need
    page.screenshot(path=file)
    context.close()


def main(folder: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("there is no chromium: apt-get install chromium")
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="shop-") as temporary,
        job_server(Path(temporary, "log")) as (endpoint, pages),
        JobClient(endpoint) as client,
        sync_playwright() as playwright,
    ):
        # Use a file name in tracebacks that doesn't depend on the location of this repository.
        shop = shutil.copy(PIPELINES, Path(temporary, "shop.py"))
        submitted = [
            subprocess.Popen(
                [sys.executable, shop, name, endpoint],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for name in ("orders", "prices", "clicks")
        ]
        jobs = wait_for(
            "three jobs",
            lambda: len(found := {job.job_name: job for job in client.list_jobs()}) == 3 and found,
        )
        orders, prices = (jobs[name].job_id for name in ("orders", "prices"))
        wait_for("a failure", lambda: client.get_state(prices).state is JobState.FAILED)
        wait_for(
            "a bundle that blocks",
            lambda: any(one.seconds > 15 for one in client.get_execution(orders).bundles),
        )
        shown = {
            "jobs": "/",
            "job": f"/jobs/{orders}",
            "stacks": f"/jobs/{orders}/stacks",
            "errors": f"/jobs/{prices}/errors",
            "stream": f"/jobs/{jobs['clicks'].job_id}",
        }
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for scheme in ("light", "dark"):
            for name, path in shown.items():
                take(browser, pages + path, folder / f"{name}-{scheme}.png", scheme)
        browser.close()
        for process in submitted:
            process.kill()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
