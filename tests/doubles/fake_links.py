"""Links to worker processes that record their commands, and bundles with numbers."""

from __future__ import annotations

from typing import Any

import attrs
from beam_runner_driver.lanes.lanes import LostWork
from beam_runner_engine.scheduler.commands import Bundle
from small_plans import bundle_of

LOOP: Any = "the order to run the loop"


@attrs.define(eq=False)
class FakeLink:
    """Worker process that records its commands."""

    sent: list[Any] = attrs.field(factory=list)

    def send(self, command: Any) -> None:
        self.sent.append(command)


def bundle(number: int, attempt: int = 1, shard: int | None = None) -> Bundle:
    return bundle_of(number=number, attempt=attempt, shard=shard)


def opened(lanes: Any, number: int, link: FakeLink) -> LostWork:
    """Opens a lane (the connection of a worker process), and sends the lane work as the job does."""
    loss: LostWork = lanes.handle_opened_lane(number, link)
    lanes.assign_bundles()
    return loss


def given(link: FakeLink) -> list[int]:
    return [command.number for command in link.sent if isinstance(command, Bundle)]
