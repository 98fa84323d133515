"""When a running bundle tells how far it is."""

from __future__ import annotations

import threading
import time
from typing import Any

import attrs
import pytest
from beam_runner_urns import metrics as urns
from beam_runner_worker.core_times import CoreTime
from beam_runner_worker.records import MonitoringInfo

from beam_spark_executor.bundles import telling as telling_module
from beam_spark_executor.bundles.telling import ProgressTeller
from beam_spark_executor.channel.attempts import Attempt
from beam_spark_executor.channel.messages import BundleProgressed
from beam_spark_executor.tuning import TUNING


def count(number: int) -> MonitoringInfo:
    labels = (("PCOLLECTION", "out"),)
    return MonitoringInfo(urns.ELEMENT_COUNT, urns.SUM_INT64_TYPE, labels, bytes([number]))


@attrs.define
class Running:
    """A bundle, as far as it tells of itself."""

    stage_id: str = "source"
    embedded: bool = True
    output: int = 1
    waits: bool | None = None
    thread: int = 0
    bundle_id: str = "b"
    began: float = attrs.field(factory=time.monotonic)

    @property
    def elapsed(self) -> int:
        return int(1000 * (time.monotonic() - self.began))

    def progress(self) -> BundleProgressed:
        return BundleProgressed(Attempt(1, 1), 0.5, self.elapsed, (count(self.output),), self.waits)


class Telling:
    """A teller at work, and what it has told."""

    def __init__(self) -> None:
        self.running: Any = None
        self.told: list[BundleProgressed] = []
        self.teller = ProgressTeller(
            lambda: self.running, Running.progress, self.told.append, {"source"}, in_turns=False
        )
        threading.Thread(target=self.teller.run, daemon=True).start()

    def run(self, running: Running, seconds: float) -> list[BundleProgressed]:
        self.running = running
        self.teller.begins(running.stage_id)
        time.sleep(seconds)
        self.running = None
        return list(self.told)


@pytest.fixture
def telling(monkeypatch: pytest.MonkeyPatch) -> Telling:
    """One whose threads want no core, unless a test says so."""
    monkeypatch.setattr(telling_module, "core_time", lambda _: CoreTime(0.0, 0.0))
    return Telling()


def test_a_source_that_waits_tells_when_it_has_put_out_something(telling: Telling) -> None:
    told = telling.run(Running(), 0.4)
    assert told[0].lingers
    assert TUNING.lingers_ms <= told[0].elapsed < 300
    # Not split, it tells again, less and less often.
    assert 2 <= len(told) <= 4


def test_one_that_has_put_out_nothing_tells_later(telling: Telling) -> None:
    told = telling.run(Running(output=0), 0.8)
    assert told
    assert told[0].elapsed >= 500
    assert not told[0].lingers


@pytest.mark.parametrize("knows", [True, False])
def test_one_that_is_busy_tells_later(
    telling: Telling, monkeypatch: pytest.MonkeyPatch, knows: bool
) -> None:
    def busy(_: int) -> CoreTime | None:
        return CoreTime(time.monotonic(), 0.0) if knows else None

    monkeypatch.setattr(telling_module, "core_time", busy)
    told = telling.run(Running(), 0.8)
    assert told
    assert told[0].elapsed >= 500
    assert not told[0].lingers


@pytest.mark.parametrize(("waits", "lingers"), [(True, True), (None, False), (False, False)])
def test_of_an_sdk_elsewhere_it_counts_what_was_seen_of_it(
    telling: Telling, waits: bool | None, lingers: bool
) -> None:
    told = telling.run(Running(embedded=False, waits=waits), 0.3)
    assert [one.lingers for one in told[:1]] == [True] * lingers


def test_on_a_crowded_machine_a_turn_lasts_longer(
    telling: Telling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling.teller._slowness, "now", lambda: 4.0)
    told = telling.run(Running(), 0.6)
    assert told[0].elapsed >= 4 * TUNING.lingers_ms
    assert told[0].lingers


def test_others_tell_every_half_second(telling: Telling) -> None:
    told = telling.run(Running(stage_id="other"), 1.3)
    assert 1 <= len(told) <= 2
    assert not any(one.lingers for one in told)
