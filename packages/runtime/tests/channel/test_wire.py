"""Tests that messages of worker processes survive a round trip, and that decoding runs no code."""

from __future__ import annotations

import pickle
from typing import Any, get_args

import pytest
from beam_runner_data.rows.refs import FileRows, InlineRows, Segment, StateCommit
from beam_runner_data.rows.row import RowKind
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleDone, Output, SplitDone
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_model.facts import DataStatistics
from beam_runner_model.observation import StackFrame, ThreadStack
from beam_runner_model.windows import GLOBAL_WINDOW
from beam_runner_storage.journal.codec import RecordFormatError
from beam_runner_worker.log_records import LogRecord, Severity

from beam_runner_runtime.channel import attempts, messages, wire
from beam_runner_runtime.channel.attempts import Attempt, UserFailure
from beam_runner_runtime.channel.messages import BundleReply, ConfirmExit, FromWorker
from beam_runner_runtime.channel.wire import decode_message, decode_request, encode_request

INFOS = (MonitoringInfo("urn", "type", (("NAME", "half \ud800 a letter"),), b"\x01"),)
FACTS = DataStatistics(2, 2**40, -5, 3, frozenset([GLOBAL_WINDOW]))
INLINE = Data(InlineRows("1-2", ((RowKind.KEYED, b"one"), (RowKind.ELEMENTS, b""))), FACTS)
IN_A_FILE = Data(FileRows("1-2-3", (0, 1), 5, None, 2**64 - 1), FACTS)
REPLY = BundleReply(
    BundleDone(2**50, 1, (Output("a", INLINE), Output("b", IN_A_FILE), Output("c", INLINE))),
    StateCommit((Segment("s", 1, 2, 3),)),
    INFOS,
)
FAILURE = UserFailure("Map", "ValueError: no", "trace", "7")
MESSAGES: dict[str, FromWorker] = {
    type(message).__name__: message
    for message in (
        messages.WorkerHello("job-1", "host", 42, "birth"),
        messages.LaneOpened(3),
        messages.BundleProgressed(Attempt(1, 2), 0.5, 700, INFOS, None, True, True),
        REPLY,
        attempts.BundleFailure(Attempt(1, 2), FAILURE, "gone"),
        attempts.SectionRefusal(Attempt(1, 2), "a checkpoint"),
        messages.LoopProgress(1, (REPLY, REPLY.done)),
        messages.LoopReply(1, (REPLY,), Attempt(1, 2), True),
        messages.LoopFailure(1, "OSError: why \ud800"),
        messages.NeighbourWaitStatus("the data store at s3://b", "no answer"),
        messages.SplitReply(SplitDone(1, 2, (), ())),
        messages.LogBatch((LogRecord(Severity.WARN, 5, "text"),)),
        messages.ExternalWorkerStarted("localhost:1", "1-2"),
        messages.Heartbeat((("stage", 2),)),
        messages.StackDump(1, (ThreadStack("h", 1, "t\udfff", (StackFrame("f.py", 1, "f", ""),)),)),
        messages.WorkerClosed((("stage", 2),)),
    )
}


@pytest.mark.parametrize("name", [cls.__name__ for cls in get_args(FromWorker)])
def test_encoded_worker_messages_round_trip(name: str) -> None:
    assert decode_message(wire.encode_message(MESSAGES[name])) == MESSAGES[name]


def test_encoded_log_severities_round_trip() -> None:
    logged = decode_message(wire.encode_message(MESSAGES["LogBatch"]))
    assert isinstance(logged, messages.LogBatch)
    assert logged.records[0].severity is Severity.WARN


class Exploding:
    def __reduce__(self) -> Any:
        return pytest.fail, ("what a worker process has sent was unpickled",)


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Exploding()),
        pickle.dumps(REPLY),
        b"",
        b"\xc1",
        b"\x81" * 5000,
        b"\x91" * 5000,
        b"\xdd\xff\xff\xff\xff",
        b"\x81\xcd\xff\xff\x90",
        wire._REGISTRY.encode(REPLY.done),
        wire._REGISTRY.encode("text"),
    ],
)
def test_malformed_worker_message_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(RecordFormatError):
        decode_message(data)


def test_server_messages_from_worker_are_refused() -> None:
    with pytest.raises(RecordFormatError, match="ConfirmExit"):
        decode_message(wire._REGISTRY.encode(ConfirmExit()))


def test_encoded_worker_requests_round_trip() -> None:
    assert decode_request(encode_request("job-1", 7), str, int) == ("job-1", 7)
    for data in (
        b"",
        b"\xc1",
        encode_request("job-1"),
        encode_request(7, 7),
        pickle.dumps(("a", 7)),
    ):
        with pytest.raises(RecordFormatError):
            decode_request(data, str, int)
