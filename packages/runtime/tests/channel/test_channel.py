"""Tests of the channel: access requires the token, requests get responses, and both sides detect a disconnect."""

from __future__ import annotations

import pickle
import queue
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import attrs
import grpc
import pytest
from beam_runner_model.stages import JobContext
from beam_runner_planner.plan import JobPlan
from beam_runner_storage.stores.spec import StoreSpec
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.log_records import LogRecord, Severity

from beam_runner_runtime.channel import server as server_module
from beam_runner_runtime.channel.client import (
    ChannelClient,
    check_server_reachable,
    open_channel,
    wait_for_lane,
)
from beam_runner_runtime.channel.endpoints import KNOCK, make_job_scope, make_stand_by_scope
from beam_runner_runtime.channel.identity import generate_identity
from beam_runner_runtime.channel.messages import (
    ConfirmExit,
    EndJob,
    Endpoint,
    ExitProcess,
    FromServer,
    FromWorker,
    Heartbeat,
    JobWork,
    LogBatch,
    WorkerClosed,
    WorkerHello,
)
from beam_runner_runtime.channel.place import ChannelAddress, ChannelError
from beam_runner_runtime.channel.process_identity import read_process_identity
from beam_runner_runtime.channel.server import SERVICE, ChannelServer, WorkerLink
from beam_runner_runtime.channel.stand_by import EndStandBy, LaneRef, ServeLane, StandByOrder
from beam_runner_runtime.channel.wire import encode_message

SECONDS = 60
CONTEXT = JobContext(job_id="job-1", job_name="name", options_json="{}", environments={})
ORDERS = {1: ServeLane("job-1", 3), 2: EndStandBy()}
WORK = JobWork(JobPlan(CONTEXT, {}, {}), 4, StoreSpec("folder"))


@attrs.define(eq=False)
class FakeJob:
    """A job from the view of the channel, which records its messages."""

    heard: queue.SimpleQueue[Any] = attrs.field(factory=queue.SimpleQueue)
    broken: bool = False

    def make_job_work(self) -> JobWork:
        if self.broken:
            raise LookupError("the plan is lost")
        return WORK

    def read_artifact(self, sha256: str) -> Iterator[bytes]:
        content = {"abc": [b"one", b"two"], "empty": []}
        yield from content[sha256]

    def handle_worker_attached(self, link: WorkerLink) -> None:
        self.heard.put(link)

    def handle_message(self, link: WorkerLink, message: FromWorker) -> None:
        self.heard.put(message)

    def handle_worker_detached(self, link: WorkerLink) -> None:
        self.heard.put("detached")


@pytest.fixture
def job() -> FakeJob:
    return FakeJob()


@pytest.fixture(params=["plain", "encrypted"])
def server(job: FakeJob, request: pytest.FixtureRequest) -> Iterator[ChannelServer]:
    identity = generate_identity() if request.param == "encrypted" else None
    server = ChannelServer(ChannelAddress(), {"job-1": job}.get, ORDERS.__getitem__, identity)
    server.start()
    yield server
    server.stop()


def job_endpoint(server: ChannelServer, job_id: str = "job-1") -> Endpoint:
    return server.endpoints.make_endpoint(make_job_scope(job_id))


@pytest.fixture
def client(server: ChannelServer) -> ChannelClient:
    return ChannelClient(job_endpoint(server), "job-1")


@attrs.define
class Attached:
    """The stream end of a worker process."""

    client: ChannelClient
    commands: queue.SimpleQueue[FromServer] = attrs.field(factory=queue.SimpleQueue)
    lost: queue.SimpleQueue[bool] = attrs.field(factory=queue.SimpleQueue)

    def attach(self) -> None:
        hello = WorkerHello("job-1", "host", 42)
        self.client.open_message_stream(hello, self.commands.put, lambda: self.lost.put(True))


def test_channel_server_returns_responses(client: ChannelClient) -> None:
    assert client.request_job_work() == WORK


def test_channel_transfers_artifacts_in_pieces(client: ChannelClient) -> None:
    assert list(client.read_artifact("abc")) == [b"one", b"two"]
    assert list(client.read_artifact("empty")) == []
    with pytest.raises(KeyError, match="nothing"):
        list(client.read_artifact("nothing"))


def test_channel_returns_error_for_unknown_job_and_failing_call(
    server: ChannelServer, client: ChannelClient, job: FakeJob
) -> None:
    with pytest.raises(HarnessError, match="job 'other' isn't running"):
        ChannelClient(job_endpoint(server, "other"), "other").request_job_work()
    job.broken = True
    with pytest.raises(HarnessError, match="JobWork"):
        client.request_job_work()


@pytest.mark.parametrize("token", ["", "wrong"])
def test_channel_without_token_gets_no_response(server: ChannelServer, token: str) -> None:
    intruder = ChannelClient(attrs.evolve(job_endpoint(server), token=token), "job-1")
    with pytest.raises(HarnessError, match="token"):
        intruder.request_job_work()
    with pytest.raises(HarnessError, match="token"):
        list(intruder.read_artifact("abc"))
    attached = Attached(intruder)
    attached.attach()
    assert attached.lost.get(timeout=SECONDS)


class Exploding:
    """An attacker's object, which runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("a message was read before its sender had shown the token",)


def test_channel_reads_message_only_after_valid_token(server: ChannelServer, job: FakeJob) -> None:
    with open_channel(job_endpoint(server)) as channel:
        bomb = pickle.dumps(Exploding())
        for method in ("JobWork",):
            with pytest.raises(grpc.RpcError) as refused:
                channel.unary_unary(f"/{SERVICE}/{method}")(bomb, timeout=SECONDS)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        stream = channel.stream_stream(f"/{SERVICE}/Attach")(iter([bomb]), timeout=SECONDS)
        with pytest.raises(grpc.RpcError):
            list(stream)
    assert job.heard.empty()


@pytest.mark.parametrize("said", [pickle.dumps(Exploding()), b"", encode_message(WorkerClosed())])
def test_invalid_first_message_is_refused(server: ChannelServer, job: FakeJob, said: bytes) -> None:
    metadata = (("authorization", f"Bearer {job_endpoint(server).token}"),)
    with open_channel(job_endpoint(server)) as channel:
        attach = channel.stream_stream(f"/{SERVICE}/Attach")
        with pytest.raises(grpc.RpcError, match="INVALID_ARGUMENT"):
            list(attach(iter([said]), metadata=metadata, timeout=SECONDS))
        for method in ("JobWork", "StandByOrder"):
            with pytest.raises(grpc.RpcError, match="INVALID_ARGUMENT"):
                channel.unary_unary(f"/{SERVICE}/{method}")(
                    said, metadata=metadata, timeout=SECONDS
                )
    assert job.heard.empty()


def test_worker_with_unexpected_message_is_disconnected(
    server: ChannelServer, job: FakeJob
) -> None:
    process = subprocess.Popen(["sleep", "600"])
    hello = WorkerHello("job-1", "host", process.pid, read_process_identity(process.pid))
    said = iter([encode_message(hello), encode_message(Heartbeat()), pickle.dumps(Exploding())])
    metadata = (("authorization", f"Bearer {job_endpoint(server).token}"),)
    try:
        with open_channel(job_endpoint(server)) as channel:
            attach = channel.stream_stream(f"/{SERVICE}/Attach")
            assert list(attach(said, metadata=metadata, timeout=SECONDS)) == []
        assert job.heard.get(timeout=SECONDS).hello == hello
        assert job.heard.get(timeout=SECONDS) == "detached"
        assert process.wait(SECONDS) == -signal.SIGKILL
    finally:
        process.kill()


def test_standby_worker_gets_job_order(server: ChannelServer) -> None:
    first, second, third = (
        server.endpoints.make_endpoint(make_stand_by_scope(number)) for number in (1, 2, 3)
    )
    assert wait_for_lane(first, 1) == LaneRef(job_endpoint(server), "job-1", 3)
    assert wait_for_lane(second, 2) == EndStandBy()
    with pytest.raises(HarnessError, match="StandByOrder"):
        wait_for_lane(third, 3)
    with pytest.raises(HarnessError, match="token"):
        wait_for_lane(attrs.evolve(first, token="wrong"), 1)


def test_standby_worker_polls_until_job_order_arrives(job: FakeJob) -> None:
    orders: list[StandByOrder] = [None, None, EndStandBy()]
    server = ChannelServer(ChannelAddress(), {"job-1": job}.get, lambda number: orders.pop(0))
    server.start()
    assert wait_for_lane(server.endpoints.make_endpoint(make_stand_by_scope(1)), 1) == EndStandBy()
    server.stop()
    assert orders == []


@pytest.mark.parametrize(
    "opens", [make_job_scope("job-2"), make_stand_by_scope(1), KNOCK, "job/job-"]
)
def test_worker_with_wrong_token_gets_no_job(
    server: ChannelServer, job: FakeJob, opens: str
) -> None:
    other = ChannelClient(server.endpoints.make_endpoint(opens), "job-1")
    refused = f"grants access to {opens}, not to job/job-1"
    with pytest.raises(HarnessError, match=refused):
        other.request_job_work()
    with pytest.raises(HarnessError, match=refused):
        list(other.read_artifact("abc"))
    attached = Attached(other)
    attached.attach()
    assert attached.lost.get(timeout=SECONDS)
    assert job.heard.empty()


@pytest.mark.parametrize("opens", [make_job_scope("job-1"), make_stand_by_scope(2), KNOCK])
def test_worker_with_wrong_token_gets_no_lane(server: ChannelServer, opens: str) -> None:
    with pytest.raises(HarnessError, match=f"grants access to {opens}, not to stand-by/1"):
        wait_for_lane(server.endpoints.make_endpoint(opens), 1)


def test_token_of_one_job_cannot_be_changed_to_another_job(server: ChannelServer) -> None:
    endpoint = server.endpoints.make_endpoint(make_job_scope("job-2"))
    changed = attrs.evolve(endpoint, token=endpoint.token.replace("job-2", "job-1"))
    with pytest.raises(HarnessError, match="token is missing or wrong"):
        ChannelClient(changed, "job-1").request_job_work()


def test_channel_token_is_hidden_in_text_of_endpoint(server: ChannelServer) -> None:
    endpoint = job_endpoint(server)
    assert endpoint.token not in repr(endpoint)
    assert endpoint.token.partition(".")[0] not in repr(server.endpoints)


def test_reachability_check_returns_reason_of_refusal(server: ChannelServer) -> None:
    endpoint = server.endpoints.make_endpoint(KNOCK)
    assert check_server_reachable(endpoint, SECONDS) == ""
    assert "token" in check_server_reachable(attrs.evolve(endpoint, token="wrong"), SECONDS)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{closed.getsockname()[1]}"
        assert "refused" in check_server_reachable(attrs.evolve(endpoint, address=nowhere), SECONDS)


def test_reachability_check_of_silent_server_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = Endpoint(f"127.0.0.1:{silent.getsockname()[1]}", "token")
        assert check_server_reachable(endpoint, 0.2) == "no answer within 0.2 s"


def test_channel_refuses_other_certificates_and_plain_text(job: FakeJob) -> None:
    server = ChannelServer(ChannelAddress(), {"job-1": job}.get, ORDERS.get, generate_identity())
    server.start()
    try:
        other = generate_identity().certificate.decode()
        endpoint = server.endpoints.make_endpoint(KNOCK)
        assert "andshake" in check_server_reachable(
            attrs.evolve(endpoint, certificate=other), SECONDS
        )
        assert check_server_reachable(attrs.evolve(endpoint, certificate=""), SECONDS)
        assert "BEGIN" not in f"{endpoint} {server.endpoints}"
    finally:
        server.stop()


def test_channel_server_on_port_in_use_is_refused(server: ChannelServer) -> None:
    port = int(server.endpoints.address.rpartition(":")[2])
    with pytest.raises(ChannelError, match=f"127.0.0.1:{port}: the port is taken.*--channel-port"):
        ChannelServer(ChannelAddress(port=port), lambda job_id: None, ORDERS.__getitem__)


def test_channel_endpoint_contains_advertised_address(job: FakeJob) -> None:
    place = ChannelAddress(advertised_host="server.example", advertised_port=50000)
    server = ChannelServer(place, {"job-1": job}.get, ORDERS.__getitem__)
    server.stop()
    assert server.endpoints.address == "server.example:50000"


def test_channel_messages_arrive_in_order_and_disconnect_is_detected(
    client: ChannelClient, job: FakeJob
) -> None:
    attached = Attached(client)
    attached.attach()
    link = job.heard.get(timeout=SECONDS)
    assert link.hello == WorkerHello("job-1", "host", 42)
    said = [LogBatch((LogRecord(Severity.INFO, 0, str(n)),)) for n in range(100)]
    for message in said:
        client.send(message)
    assert [job.heard.get(timeout=SECONDS) for _ in said] == said
    client.send(Heartbeat())
    for told in (Heartbeat(begun=(("stage", 1),)), WorkerClosed((("stage", 2),))):
        client.send(told)
        assert job.heard.get(timeout=SECONDS) == told
    assert attached.commands.get(timeout=SECONDS) == ConfirmExit()
    assert attached.lost.empty()
    client._channel.close()  # as at the exit of the process
    assert job.heard.get(timeout=SECONDS) == "detached"


def test_channel_server_commands_reach_worker(client: ChannelClient, job: FakeJob) -> None:
    attached = Attached(client)
    attached.attach()
    link = job.heard.get(timeout=SECONDS)
    link.send(EndJob())
    link.send(ExitProcess())
    assert attached.commands.get(timeout=SECONDS) == EndJob()
    assert attached.commands.get(timeout=SECONDS) == ExitProcess()


def test_worker_detects_loss_of_server(
    server: ChannelServer, client: ChannelClient, job: FakeJob
) -> None:
    attached = Attached(client)
    attached.attach()
    job.heard.get(timeout=SECONDS)
    server.stop()
    assert attached.lost.get(timeout=SECONDS)


def test_worker_of_removed_job_is_refused(server: ChannelServer) -> None:
    stranger = ChannelClient(job_endpoint(server, "gone"), "gone")
    lost: queue.SimpleQueue[bool] = queue.SimpleQueue()
    hello = WorkerHello("gone", "host", 1)
    stranger.open_message_stream(hello, lambda command: None, lambda: lost.put(True))
    assert lost.get(timeout=SECONDS)


CLIENT = """
import sys, threading
from beam_runner_runtime.channel.client import ChannelClient
from beam_runner_runtime.channel.messages import (Endpoint, WorkerHello)

client = ChannelClient(Endpoint(*sys.argv[1:]), "job-1")
client.open_message_stream(WorkerHello("job-1", "host", 42), lambda command: None, lambda: None)
threading.Event().wait()
"""


def test_channel_detects_unresponsive_peer(job: FakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped process closes no connection, and neither does a machine that vanishes."""
    soon = tuple(
        (name, 1000 if value == 10_000 else value) for name, value in server_module.OPTIONS
    )
    monkeypatch.setattr(server_module, "OPTIONS", soon)
    server = ChannelServer(ChannelAddress(), {"job-1": job}.get, ORDERS.__getitem__)
    server.start()
    endpoint = job_endpoint(server)
    process = subprocess.Popen([sys.executable, "-c", CLIENT, endpoint.address, endpoint.token])
    try:
        link = job.heard.get(timeout=60)
        assert link.hello.pid == 42
        process.send_signal(signal.SIGSTOP)
        assert job.heard.get(timeout=SECONDS) == "detached"
    finally:
        process.kill()
        process.wait(SECONDS)
        server.stop()


def test_process_that_ignores_exit_message_is_killed(job: FakeJob) -> None:
    deaf, hears = subprocess.Popen(["sleep", "600"]), subprocess.Popen(["sleep", "0.2"])
    try:
        for process in (deaf, hears):
            link = WorkerLink(
                WorkerHello("job-1", "host", process.pid, read_process_identity(process.pid))
            )
            link.send(ExitProcess())
        assert deaf.wait(60) == -9
        assert hears.wait(60) == 0
    finally:
        deaf.kill()
        hears.kill()
