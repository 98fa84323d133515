"""Interface of a message queue for `ReadFromQueue`.

The transform acknowledges a message after the commit of the bundle that has read it. If the worker
process is killed before, the queue delivers the message again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import attrs


@attrs.frozen
class QueueMessage:
    """Message of a queue.

    Attributes:
        id: ID that is the same in each delivery of the message.
        data: content of the message; its coder must be known to Beam, as for each element.
        receipt: object that the consumer needs for the acknowledgement. It's never sent to another
            process.
    """

    id: str
    data: Any
    receipt: Any = None


class QueueUnavailable(Exception):
    """Raised if a queue doesn't respond. The read tries again after a pause, and no attempt is counted.

    The text names the queue and the reason.
    """


class QueueConsumer(Protocol):
    """Connection to a queue in one process. The transform calls one method at a time.

    After an error of a method, the transform closes the consumer and creates another one.
    """

    def receive(self, most: int) -> Sequence[QueueMessage]:
        """Receives messages from the queue. The queue delivers a message again until it's
        acknowledged.

        Args:
            most: maximum number of messages.

        Returns:
            An empty sequence if the queue has no message. The call waits for at most about a second.

        Raises:
            QueueUnavailable: The queue doesn't respond.
        """

    def acknowledge(self, messages: Sequence[QueueMessage]) -> None:
        """Acknowledges messages that this consumer has received, so that the queue removes them.
        Any thread can call this method.

        Args:
            messages: messages without their data.
        """

    def close(self) -> None:
        """Releases the connection. The queue delivers messages without acknowledgement again."""


class MessageQueue(Protocol):
    """Description of a queue, which Beam pickles with the pipeline."""

    def create_consumer(self) -> QueueConsumer:
        """Returns a new consumer.

        Raises:
            QueueUnavailable: The queue doesn't respond.
        """
