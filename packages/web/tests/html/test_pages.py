from __future__ import annotations

import html
import re
import struct
from html.parser import HTMLParser
from pathlib import Path

import pytest
from beam_runner_jobservices.errors import JobApiError
from beam_runner_jobservices.figures.samples import URN as SAMPLES
from beam_runner_jobservices.limits import ServerLimits
from beam_runner_jobservices.sizes import PIPELINE_LIMITS
from beam_runner_model.jobs import Importance, JobMetrics, JobState, MessageLine, MetricCell
from beam_runner_model.shadows import ShadowReport, StepComparison, StepOutcome
from beam_runner_model.successions import Succession
from starlette.testclient import TestClient

from beam_runner_web.app import create_app
from beam_runner_web.settings import WebSettings

from ..conftest import Server, add_step, count, stage, user, wall, word_count

PAGES = ("", "/stages", "/logs", "/errors", "/metrics", "/environment", "/end", "/report.html")
TRACE = """KeyError: 'b' [while running 'Count']
Traceback (most recent call last):
  File "/x/site-packages/apache_beam/runners/common.py", line 7, in process
    run()
  File "/home/me/words.py", line 12, in look_up
    return {'a': 1}[word]
           ~~~~~~~~^^^^^^
KeyError: 'b'"""
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }}",
    "\x1b[31mred\x1b[0m",
    "‮txt.exe",
    "a\x00b\x07c",
    "javascript:alert(1)",
)


class Dangers(HTMLParser):
    """A parser that collects scripts and external resources of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attributes}
        if tag in ("img", "iframe", "object", "embed", "base"):
            self.found.append(tag)
        if tag == "script" and given.get("type") != "application/json":
            self.found += [] if given.get("src", "").startswith("/static/") else ["script"]
        self.found += [key for key in given if key == "style" or key.startswith("on")]
        for key in ("href", "src", "action"):
            value = given.get(key, "/")
            self.found += [] if value.startswith(("/", "#")) else [f"{key}={value}"]


def dangers_of(body: str) -> list[str]:
    parser = Dangers()
    parser.feed(body)
    return parser.found


def text_of(body: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", body))


def test_job_page_links_the_jobs_before_and_after(server: Server, web: TestClient) -> None:
    job = server.submit()
    job.reporter.record_succession(Succession(predecessor="words-1", successor="words-3"))
    job.reporter.report_state(JobState.UPDATED)
    page = web.get(f"/jobs/{job.id}").text
    for other in ("words-1", "words-3"):
        assert f'href="/jobs/{other}"' in page
    assert "another job has its state" in text_of(page)


def test_job_page_shows_the_shadow_run(server: Server, web: TestClient) -> None:
    assert "Shadow run" not in web.get(f"/jobs/{server.submit().id}").text
    job = server.submit()
    step = StepComparison(StepOutcome.DIFFERENT, "Write <b>", "", 12, 13, 9000, 1000)
    shadow = ShadowReport(60.0, (step,), new_failure="KeyError")
    job.reporter.record_succession(Succession(compared="words-1", shadow=shadow))
    page = web.get(f"/jobs/{job.id}").text
    assert 'href="/jobs/words-1"' in page
    for part in ("not equal", "Write <b>", "12 elements before and 13 now", "KeyError"):
        assert part in text_of(page)
    assert not dangers_of(page)


def test_job_list_shows_names_given_by_users(server: Server, web: TestClient) -> None:
    assert "has not run a job yet" in web.get("/").text
    server.submit(name="first")
    server.submit(name="second").reporter.report_state(JobState.FAILED, "no")
    page = web.get("/").text
    assert page.index("first") < page.index("second"), "running jobs come first"
    assert "second" not in web.get("/?state=running").text
    failed = web.get("/?state=failed").text
    assert ">second<" in failed and ">first<" not in failed
    assert ">first<" in web.get("/?name=FIR").text


def test_job_page_shows_steps_with_numbers(server: Server, web: TestClient) -> None:
    job = server.submit()
    job.given = JobMetrics(
        (count("lines", 1234), wall("Read/Lines", 30_000), wall("Count", 10_000))
    )
    page = text_of(web.get(f"/jobs/{job.id}").text)
    assert "1,234" in page
    assert "Read/Lines takes 75 % of the processing time" in page
    assert "▸" in page
    opened = web.get(f"/jobs/{job.id}?open=t0").text
    assert 'id="row-t2"' in opened
    assert 'id="row-t2"' not in web.get(f"/jobs/{job.id}").text


def test_failed_job_page_starts_with_raising_user_line(server: Server, web: TestClient) -> None:
    job = server.submit()
    job.reporter.report_state(JobState.FAILED, TRACE)
    page = text_of(web.get(f"/jobs/{job.id}").text)
    assert "The job failed in Count: KeyError: 'b', at words.py:12 in look_up" in page
    assert "return {'a': 1}[word]" in page[page.index("What failed") :]
    errors = text_of(web.get(f"/jobs/{job.id}/errors").text)
    assert errors.index("look_up") < errors.index("apache_beam/runners")


def test_report_page_contains_graph_without_javascript(server: Server, web: TestClient) -> None:
    job = server.submit()
    job.given = JobMetrics((count("lines", 1234),))
    job.reporter.report_state(JobState.FAILED, TRACE.replace("'Count'", "'Read/Lines'"))
    page = web.get(f"/jobs/{job.id}/report.html").text
    assert "<script" not in page
    drawn = page[page.index("<svg") : page.index("</svg>")]
    # The failed step and its siblings are visible in their composite.
    assert len(re.findall('<g class="node ', drawn)) == 5
    assert re.search(r'<g class="node failed">\s*<title>Read/Lines', drawn)
    assert re.search(r'<g class="node failed open">\s*<title>Read\n', drawn)
    assert "1,234 out<" in drawn
    assert drawn.count('<g class="flow') == 3


def test_graph_on_page_shortens_long_names(server: Server, web: TestClient) -> None:
    pipeline = word_count()
    add_step(pipeline, "long", "L" * 50_000, {"in": "counts"})
    pipeline.components.transforms["root"].subtransforms.append("long")
    page = web.get(f"/jobs/{server.submit(pipeline).id}").text
    drawn = page[page.index("<svg") : page.index("</svg>")]
    assert "L" * 400 in drawn and "L" * 501 not in drawn


def test_cause_of_long_bundle_names_slowest_step_of_stage(server: Server, web: TestClient) -> None:
    job = server.submit()
    name = "Read/Lines + Count"
    job.given = JobMetrics(
        (
            wall("Count", 9_000),
            stage("s", name, "commit_lag", 42_000),
            stage("s", name, "open_bundles", 1),
        )
    )
    page = text_of(web.get(f"/jobs/{job.id}").text)
    assert "Count has processed one bundle for 42 s" in page
    assert "42 s" in text_of(web.get(f"/jobs/{job.id}/stages").text)


def test_metrics_page_shows_committed_and_attempted_values(server: Server, web: TestClient) -> None:
    job = server.submit()
    job.given = JobMetrics((user("Count", "seen", 7),), (user("Count", "seen", 5),))
    page = " ".join(text_of(web.get(f"/jobs/{job.id}/metrics").text).split())
    assert "mine seen Count 7 5" in page


def test_log_page_filters_lines_by_step_severity_and_text(server: Server, web: TestClient) -> None:
    job = server.submit()
    job.reporter.report_message(Importance.BASIC, "one line", "Read/Lines")
    job.reporter.report_message(Importance.WARNING, "one warning", "Count")
    job.reporter.report_message(Importance.BASIC, "[not a step] text")

    def lines(query: str) -> str:
        return web.get(f"/jobs/{job.id}/logs.txt{query}").text

    assert "[Read/Lines] one line" in lines("")
    assert "[job] [not a step] text" in lines("")
    assert lines("?step=Read") == lines("?step=t2") == lines("?q=ONE LINE")
    assert lines("?severity=warning").count("\n") == 1
    page = web.get(f"/jobs/{job.id}/logs?step=t3").text
    assert "one warning" in page and "one line" not in page


def test_log_page_shows_lines_of_server_with_their_workers(server: Server, web: TestClient) -> None:
    job = server.submit()
    job.reporter.report_messages([MessageLine(Importance.BASIC, "a line", "Read/Lines", "host:12")])
    page = " ".join(text_of(web.get(f"/jobs/{job.id}/logs").text).split())
    assert "Read/Lines host:12 a line" in page
    (line,) = web.get(f"/api/v1/jobs/{job.id}/logs").json()["logs"]
    assert (line["step"], line["worker"], line["text"]) == ("t2", "host:12", "a line")


def test_log_page_shows_messages_if_server_has_no_log(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object, job_id: str, query: object) -> None:
        raise JobApiError("UNIMPLEMENTED", "no such call")

    monkeypatch.setattr("beam_runner_jobservices.client.JobClient.query_logs", refuse)
    app = create_app(WebSettings(server.address))
    with TestClient(app, base_url="http://localhost", follow_redirects=False) as web:
        test_log_page_filters_lines_by_step_severity_and_text(server, web)
        test_log_page_links_to_older_lines_with_same_filter(server, web)


def test_options_page_masks_secrets(server: Server, web: TestClient) -> None:
    job = server.submit(db_password="hunter2", temp_location="s3://me:hunter2@bucket/x", lines=5)
    for page in ("/environment", "/report.html"):
        body = web.get(f"/jobs/{job.id}{page}").text
        assert "db_password" in body and "temp_location" in body
        assert "hunter2" not in body
    assert "hunter2" not in web.get(f"/api/v1/jobs/{job.id}").text


@pytest.mark.parametrize("text", [*HOSTILE, "x" * 1_000_000])
def test_pages_escape_user_texts(server: Server, web: TestClient, text: str) -> None:
    pipeline = word_count()
    name = text[: PIPELINE_LIMITS.name_chars]
    add_step(pipeline, "bad", name, reads={"in": "lines"}, writes={text[:50]: "bad"})
    pipeline.components.transforms["root"].subtransforms.append("bad")
    job = server.submit(pipeline, name=text, option=text)
    job.given = JobMetrics(
        (count("lines", 1), user(text, text, 1), stage(text, text, "backlog_bytes", 9))
    )
    job.reporter.report_message(Importance.WARNING, text, text)
    job.reporter.report_state(JobState.FAILED, f"{text} [while running '{text}']")
    marker = text[:50]
    for page in ("/", *(f"/jobs/{job.id}{page}" for page in PAGES)):
        found = web.get(page, params={"step": "bad", "q": "", "name": ""})
        assert found.status_code == 200, page
        assert len(found.content) < 400_000, page
        for forbidden in ("<script>alert", "<img", "\x1b", "‮", "\x00", "\x07"):
            assert forbidden not in found.text, page
        assert not dangers_of(found.text), page
        if marker.isprintable() and page == f"/jobs/{job.id}/errors":
            assert marker in text_of(found.text)


@pytest.mark.parametrize("number", ["9" * 5_000, "-1", "x", "1e9", "²", "9" * 15])
def test_pages_accept_any_value_as_page_number(
    server: Server, web: TestClient, number: str
) -> None:
    job = server.submit()
    for page in ("/", *(f"/jobs/{job.id}{page}" for page in PAGES)):
        found = web.get(page, params={"page": number, "from": number, "before": number})
        assert found.status_code == 200, page


def test_pages_have_no_inline_script_and_no_external_resource(
    server: Server, web: TestClient
) -> None:
    job = server.submit()
    for page in ("/", *(f"/jobs/{job.id}{page}" for page in PAGES)):
        assert not dangers_of(web.get(page).text), page


@pytest.mark.parametrize(
    ("path", "status"),
    [("/jobs/none", 404), ("/jobs/none/logs", 404), ("/nothing", 404), ("/api/v1/jobs/none", 404)],
)
def test_unknown_page_address_is_not_found(web: TestClient, path: str, status: int) -> None:
    found = web.get(path)
    assert found.status_code == status
    assert "none" in found.text or "no such" in found.text.lower() or "Not Found" in found.text


def test_job_page_forms_cancel_and_drain_job_once(server: Server, web: TestClient) -> None:
    job, other = server.submit(), server.submit()
    assert "Cancel the job" in web.get(f"/jobs/{job.id}/end").text
    done = web.post(f"/jobs/{job.id}/cancel")
    assert (done.status_code, done.headers["location"]) == (303, f"/jobs/{job.id}")
    assert server.client.get_state(job.id).state is JobState.CANCELLED
    assert web.post(f"/jobs/{job.id}/cancel").status_code == 409
    assert web.post(f"/jobs/{other.id}/drain").status_code == 303
    assert "Beam's Python client reports any final state except DONE" in text_of(
        web.get(f"/jobs/{other.id}").text
    )


def test_page_of_job_with_2000_steps_is_complete(server: Server, web: TestClient) -> None:
    pipeline = word_count()
    for number in range(2_000):
        add_step(
            pipeline,
            f"s{number}",
            f"Step {number}",
            {"in": f"p{number}"},
            {"out": f"p{number + 1}"},
        )
        pipeline.components.transforms["root"].subtransforms.append(f"s{number}")
    job = server.submit(pipeline)
    job.given = JobMetrics(tuple(count(f"p{number}", number) for number in range(2_000)))
    page = web.get(f"/jobs/{job.id}")
    assert page.status_code == 200
    assert len(page.content) < 400_000
    assert "Step 100" in page.text


def test_pages_report_unreachable_server(server: Server, web: TestClient) -> None:
    job = server.submit()
    assert web.get(f"/jobs/{job.id}").status_code == 200
    server.close()
    page = web.get("/")
    assert page.status_code == 503
    assert "doesn't respond" in html.unescape(page.text)


def test_error_page_shows_error_of_dropped_message(tmp_path: Path) -> None:
    server = Server(tmp_path / "artifacts", limits=ServerLimits(messages=100))
    job = server.submit()
    job.reporter.report_message(Importance.ERROR, TRACE)
    job.reporter.report_messages([MessageLine(Importance.BASIC, "a line")] * 200)
    with TestClient(create_app(WebSettings(server.address)), base_url="http://localhost") as web:
        assert "were discarded" in web.get(f"/jobs/{job.id}/logs").text
        assert "words.py:12 in look_up" in text_of(web.get(f"/jobs/{job.id}").text)
        (group,) = web.get(f"/api/v1/jobs/{job.id}/errors").json()["errors"]
    server.close()
    assert (group["count"], group["failure"]["step"]) == (1, "t3")


def test_log_page_links_to_older_lines_with_same_filter(server: Server, web: TestClient) -> None:
    job = server.submit()
    job.reporter.report_messages(
        MessageLine(Importance.WARNING if number % 2 else Importance.BASIC, f"line {number}!")
        for number in range(2_400)
    )
    address, seen = f"/jobs/{job.id}/logs?severity=WARNING", []
    for _ in range(3):
        page = web.get(address).text
        seen.append([int(one) for one in re.findall(r">line (\d+)!<", page)])
        links = re.findall(r'href="([^"]+)">earlier lines<', page)
        address = html.unescape(links[0]) if links else ""
    assert [len(one) for one in seen] == [500, 500, 200]
    assert [one for part in reversed(seen) for one in part] == list(range(1, 2_400, 2))
    assert address == "" and ">the latest</a>" in page


def test_step_panel_shows_samples_as_text(server: Server, web: TestClient) -> None:
    job = server.submit()
    payload = struct.pack(">i", 2) + b"\x04\x03<b>\x02\x01x"
    samples = MetricCell(SAMPLES, SAMPLES, payload, {"PCOLLECTION": "lines"})
    job.given = JobMetrics((samples,))
    page = web.get(f"/jobs/{job.id}?step=t3").text
    assert "2 sampled elements" in page
    assert "b&#39;&lt;b&gt;&#39;" in page and "<b>&#39;" not in page
