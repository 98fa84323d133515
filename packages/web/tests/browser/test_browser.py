"""Tests of the pages in a real Chromium, skipped without Playwright or Chromium. `nox -s browser` requires both."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from beam_runner_model.jobs import Importance, JobMetrics, JobState
from beam_runner_model.observation import (
    Execution,
    ObservedBundle,
    StackFrame,
    StageTimeSeries,
    ThreadStack,
)
from waiting import eventually

from beam_runner_web.server import WebServer
from beam_runner_web.settings import WebSettings

from ..conftest import (
    Observed,
    Server,
    add_step,
    count,
    stage,
    user,
    waits,
    wall,
    word_count,
)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
if not CHROMIUM:
    pytest.skip("there is no chromium: apt-get install chromium", allow_module_level=True)
sync_api = pytest.importorskip("playwright.sync_api", reason="there is no playwright")

AXE = (Path(__file__).parent / "axe.min.js").read_text(encoding="utf-8")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
TRACE = """KeyError: 'b' [while running 'Read/Lines']
Traceback (most recent call last):
  File "/home/me/words.py", line 12, in look_up
    return {'a': 1}[word]
KeyError: 'b'"""
BLOCKED = Execution((ObservedBundle("s", 7, 2, ("Count",), "node-3", 4711, 23.0, 21.5, 0.4),))
STACKS = (
    ThreadStack(
        "node-3",
        4711,
        "lane",
        (
            StackFrame("/usr/lib/python3.11/threading.py", 3, "run", ""),
            StackFrame("/home/me/words.py", 31, "ask", "time.sleep(20)"),
        ),
    ),
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    web = WebServer(WebSettings(server.address, port=0))
    web.start()
    yield web.url.rstrip("/")
    web.stop()


Open = Callable[..., Any]


@pytest.fixture
def open_page(chromium: Any, url: str) -> Iterator[Open]:
    """Opens a page of the server. Fails at the end if the page logged an error or requested a forbidden address."""
    contexts, wrongs = [], []

    def open_(path: str, **options: Any) -> Any:
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: wrongs.append(str(error)))
        page.on("console", lambda said: said.type == "error" and wrongs.append(said.text))
        page.on("request", lambda asked: asked.url.startswith(url) or wrongs.append(asked.url))
        page.goto(f"{url}{path}")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert wrongs == []


def figures(job: Any) -> None:
    """Returns metrics of a running job."""
    job.given = JobMetrics(
        (
            count("files", 3),
            count("lines", 1234),
            wall("Read/Lines", 20_000),
            user("Count", "seen", 5),
            stage("s", "Count", "open_bundles", 1),
            stage("s", "Count", "backlog_bytes", 4096),
            stage("s", "Count", "commit_lag", 42_000),
            stage("s", "Count", "began", 1_790_000_000_000),
            stage("s", "Count", "last_at_work", 1_790_000_009_000),
            stage("w", "Write", "began", 1_790_000_004_000),
            stage("w", "Write", "last_at_work", 1_790_000_009_000),
        ),
        (user("Count", "seen", 4),),
    )


def test_graph_composite_opens_and_closes_by_click_and_by_key(
    server: Server, open_page: Open
) -> None:
    page = open_page(f"/jobs/{server.submit().id}")
    assert page.locator(".node").count() == 3
    page.locator("a.fold[aria-label='Open Read']").click()
    page.locator(".node", has_text="Lines").wait_for()
    assert "open=t0" in page.url
    assert page.locator(".node").count() == 5
    page.locator(".node", has_text="Read").first.focus()
    page.keyboard.press("e")
    page.locator(".node", has_text="Lines").wait_for(state="detached")
    assert page.locator(".node").count() == 3
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator("#live_panel h2", has_text="Count").wait_for()
    page.go_back()
    page.locator("#live_panel h2", has_text="Where the time goes").wait_for()


def test_numbers_on_page_change_while_job_runs(server: Server, open_page: Open) -> None:
    job = server.submit()
    page = open_page(f"/jobs/{job.id}")
    page.locator(".node", has_text="Count").wait_for()
    figures(job)
    page.locator("#live_steps", has_text="1,234").wait_for()
    page.locator(".node", has_text="1,234 out").wait_for()
    page.locator("#live_causes", has_text="Count has processed one bundle for 42 s").wait_for()
    job.reporter.report_state(JobState.DONE)
    page.locator("#live_head .pill", has_text="done").wait_for()


def test_failed_job_page_links_to_failing_line_of_user_code(
    server: Server, open_page: Open
) -> None:
    job = server.submit()
    job.reporter.report_state(JobState.FAILED, TRACE)
    page = open_page(f"/jobs/{job.id}")
    # The ancestors of the failed step are open, and the step is red.
    page.locator(".node.failed", has_text="Lines").wait_for()
    page.locator("#live_causes a", has_text="words.py:12 in look_up").click()
    page.locator(".frames .first", has_text="return {'a': 1}[word]").wait_for()


def test_page_of_job_that_waits_for_side_input_shows_reason(
    server: Server, open_page: Open
) -> None:
    server.kind = Observed
    job = server.submit()
    figures(job)
    job.runs = Execution(waits=(waits("w", "Write", "Count"),))
    page = open_page(f"/jobs/{job.id}")
    page.locator("#live_causes a", has_text="Write waits for its side input").click()
    page.locator("#live_stages .wait", has_text="waits for its side input").wait_for()


def test_page_names_blocking_call_with_step_process_and_line(
    server: Server, open_page: Open
) -> None:
    server.kind = Observed
    job = server.submit()
    job.runs, job.threads = BLOCKED, STACKS
    page = open_page(f"/jobs/{job.id}")
    said = page.locator("#live_causes a", has_text="Count has processed one bundle for 23 s")
    assert "process 4711 on node-3, attempt 2" in said.inner_text()
    said.click()
    page.locator("h3", has_text="words.py:31 in ask").wait_for()
    page.locator(".frames .now", has_text="time.sleep(20)").wait_for()


def test_buttons_cancel_and_drain_job(server: Server, open_page: Open) -> None:
    for button, word in (("Cancel the job", "cancelled"), ("Drain the job", "drained")):
        page = open_page(f"/jobs/{server.submit().id}")
        page.get_by_text("End the job").click()
        page.get_by_role("button", name=button).click()
        page.locator("#live_head .pill", has_text=word).wait_for()


def test_log_page_adds_new_lines_that_match_its_filter(server: Server, open_page: Open) -> None:
    job = server.submit()
    job.reporter.report_message(Importance.BASIC, "the first line", "Count")
    page = open_page(f"/jobs/{job.id}/logs?step=t3")
    page.locator(".lines", has_text="the first line").wait_for()
    job.reporter.report_message(Importance.BASIC, "of another step", "Write")
    job.reporter.report_message(Importance.WARNING, "the second line", "Count")
    page.locator(".lines .warning", has_text="the second line").wait_for()
    assert page.locator(".lines", has_text="of another step").count() == 0


def test_typed_text_stays_while_page_updates(server: Server, open_page: Open) -> None:
    page = open_page("/")
    page.locator("input[name=name]").fill("abc")
    server.submit(name="a new one")
    page.locator("#live_jobs", has_text="a new one").wait_for()
    assert page.locator("input[name=name]").input_value() == "abc"


def test_pages_work_without_javascript(server: Server, open_page: Open) -> None:
    job = server.submit()
    figures(job)
    page = open_page(f"/jobs/{job.id}", java_script_enabled=False)
    page.get_by_label("Open Read").first.click()
    page.locator("#row-t2", has_text="1,234").wait_for()
    page.locator(".node", has_text="Lines").wait_for()
    page.get_by_text("End the job").click()
    page.get_by_role("button", name="Cancel the job").click()
    page.locator(".pill", has_text="cancelled").wait_for()


def test_seven_tabs_of_one_job_all_update(server: Server, open_page: Open) -> None:
    job = server.submit()
    first = open_page(f"/jobs/{job.id}")
    pages = [first]
    for _ in range(6):
        page = first.context.new_page()
        page.goto(first.url)
        pages.append(page)
    figures(job)
    for page in pages:
        page.bring_to_front()
        page.locator("#live_steps", has_text="1,234").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 380])
def test_pages_are_accessible_and_fit_screen(
    server: Server, open_page: Open, scheme: str, width: int
) -> None:
    server.kind = Observed
    job, failed = server.submit(), server.submit(name="a-name-without-a-break" * 5)
    now = time.time()
    points = tuple((now - 600 + 10 * n, 1_790_000_000_000, 1000 * n, 1, n * n) for n in range(50))
    job.past = (StageTimeSeries("s", points),)
    job.runs, job.threads = BLOCKED, STACKS
    figures(job)
    job.reporter.report_message(Importance.WARNING, "look " * 200, "Count")
    failed.reporter.report_state(JobState.FAILED, TRACE)
    paths = (
        "",
        "?step=t3",
        "/stages",
        "/now",
        "/stacks",
        "/logs",
        "/metrics",
        "/environment",
        "/end",
    )
    page = open_page("/", color_scheme=scheme, viewport={"width": width, "height": 800})
    base = page.url.rstrip("/")
    for path in ("/", f"/jobs/{failed.id}/errors", *(f"/jobs/{job.id}{one}" for one in paths)):
        page.goto(base + path)
        page.locator("h1").wait_for()
        page.evaluate(AXE)
        found = page.evaluate("axe.run().then(r => r.violations.map(v => [v.id, v.nodes[0].html]))")
        assert found == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (max(map(int, re.findall(r"\d+", ground)[:3])) < 60) == (scheme == "dark")


def test_page_reconnects_after_server_restart(tmp_path: Path, chromium: Any) -> None:
    folders = {"folder": tmp_path / "artifacts", "state_dir": tmp_path / "state"}
    server = Server(**folders)
    web = WebServer(WebSettings(server.address, port=0))
    web.start()
    context = chromium.new_context()
    try:
        job = server.submit()
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.goto(f"{web.url}jobs/{job.id}")
        page.locator("#live_head .pill", has_text="running").wait_for()
        server.close()
        page.locator("#live_head .pill", has_text="server away").wait_for()
        page.locator("#live_causes", has_text="continues when the server responds again").wait_for()
        server = Server(**folders, port=int(server.address.rpartition(":")[2]))
        page.locator("#live_head .pill", has_text="server away").wait_for(state="detached")
        assert eventually(lambda: server.jobs)
        figures(server.jobs[0])
        page.locator("#live_steps", has_text="1,234").wait_for()
    finally:
        context.close()
        web.stop()
        server.close()


def test_keyboard_focus_reaches_step_panel_and_returns(server: Server, open_page: Open) -> None:
    job = server.submit()
    figures(job)
    page = open_page("/")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # skips to the content
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "words":
            break
    page.keyboard.press("Enter")
    page.locator(".node", has_text="Count").wait_for()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.node, .node *')"):
            break
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator("#live_panel h2", has_text="Count").wait_for()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Close":
            break
    page.keyboard.press("Enter")
    page.locator("#live_panel h2", has_text="Where the time goes").wait_for()


def test_step_text_fits_into_its_box(server: Server, open_page: Open) -> None:
    job = server.submit()
    job.given = JobMetrics(
        (
            count("lines", 9_999),
            count("counts", 9_999),
            stage("s", "Count", "output_watermark", int(time.time() * 1000) - 20_000_000),
            stage("s", "Count", "backlog_bytes", 123_456_789),
        )
    )
    page = open_page(f"/jobs/{job.id}")
    page.locator(".node", has_text="123 MB waiting").wait_for()
    assert page.evaluate(
        "[...document.querySelectorAll('.node')].every(node => { const box ="
        " node.querySelector('rect').getBoundingClientRect(); return"
        " [...node.querySelectorAll('text')].every(t => { const own = t.getBoundingClientRect();"
        " return own.right <= box.right + 1 && own.bottom <= box.bottom + 1 }) })"
    )


def test_selected_color_theme_is_remembered(server: Server, open_page: Open) -> None:
    page = open_page("/")
    for _ in range(2):
        page.get_by_role("button", name="Theme").click()
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def large(composites: int, parts: int) -> Any:
    """Adds a chain of composites, in which each step reads the previous step and the first step."""
    pipeline = word_count()
    for outer in range(composites):
        keys = [f"s{outer}-{inner}" for inner in range(parts)]
        for inner, key in enumerate(keys):
            before = f"p{outer}-{inner}" if inner else f"p{outer - 1}-{parts}" if outer else "lines"
            side = {"side": f"p{outer}-1"} if inner > 1 and inner % 7 == 0 else {}
            name = f"Composite {outer}/Part {inner}"
            add_step(pipeline, key, name, {"in": before, **side}, {"out": f"p{outer}-{inner + 1}"})
        add_step(pipeline, f"c{outer}", f"Composite {outer}", parts=tuple(keys))
        pipeline.components.transforms["root"].subtransforms.append(f"c{outer}")
    return pipeline


def test_graph_of_2000_steps_opens_partially(server: Server, open_page: Open) -> None:
    job = server.submit(large(40, 50))
    page = open_page(f"/jobs/{job.id}?open=c0&open=c39")
    assert page.locator("#canvas .node").count() == 143
    page.locator("a.fold[aria-label='Open Composite 13']").click()
    page.locator(".node", has_text="Part 49").nth(2).wait_for()
    assert page.locator("#canvas .node").count() == 193
