"""Requests as a broken or hostile client could send them, to every method of every service."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import attrs
from apache_beam.portability.api import (
    beam_artifact_api_pb2 as artifacts,
)
from apache_beam.portability.api import (
    beam_job_api_pb2 as jobs,
)
from apache_beam.portability.api import (
    beam_runner_api_pb2 as runner,
)

MODEL = "org.apache.beam.model.job_management.v1"
JOB = f"/{MODEL}.JobService"
STAGE = f"/{MODEL}.ArtifactStagingService/ReverseArtifactRetrievalService"
RETRIEVE = f"/{MODEL}.ArtifactRetrievalService"
OBSERVE = "/beam_runner.observation.v1.JobObservation"
ODD = (
    *("", ".", "..", "/", "../../etc/passwd", "/etc/passwd", "~/.ssh/id_rsa", "a" * 64, "0" * 64),
    *("x\r\n2026-01-01T00:00:00.000Z INFO root: forged\x1b[2J", "\u202e", "\0", "None", "%s%n" * 9),
    *("x" * 100_000, "'; DROP TABLE jobs; --", "${jndi:ldap://x}", "é" * 5_000),
)


@attrs.define
class Known:
    """Data of earlier responses that is useful for later requests."""

    pipelines: list[bytes]
    jobs: list[str] = attrs.field(factory=lambda: ["none"])
    preparations: list[str] = attrs.field(factory=lambda: ["none"])
    tokens: list[str] = attrs.field(factory=lambda: ["none"])

    def learn(self, method: str, answer: bytes) -> None:
        """Stores ids from a response; the last hundred of each kind."""
        if method == f"{JOB}/Prepare":
            prepared = jobs.PrepareJobResponse.FromString(answer)
            self.preparations = [*self.preparations[-99:], prepared.preparation_id]
            self.tokens = [*self.tokens[-99:], prepared.staging_session_token]
        elif method == f"{JOB}/Run":
            self.jobs = [*self.jobs[-99:], jobs.RunJobResponse.FromString(answer).job_id]


def attack(dice: random.Random, known: Known) -> tuple[str, list[bytes]]:
    """Returns a method, and the messages to send to it."""
    method = dice.choice(METHODS)
    build = _BUILDERS.get(method, _with_a_job)
    count = dice.choice((1, 1, 2, 5)) if method == STAGE else dice.choice((1, 1, 1, 1, 0, 2))
    return method, [_spoilt(dice, build(dice, known)) for _ in range(count)]


def _spoilt(dice: random.Random, data: bytes) -> bytes:
    """Returns the bytes of a message unchanged, or damaged."""
    match dice.randrange(9):
        case 0:
            return data[: dice.randrange(len(data) + 1)]
        case 1:
            return dice.randbytes(dice.choice((0, 1, 10, 1_000)))
        case 2 | 3 if data:
            spoilt = bytearray(data)
            for _ in range(dice.choice((1, 1, 3, 20))):
                spoilt[dice.randrange(len(spoilt))] = dice.randrange(256)
            return bytes(spoilt)
        case 4 if data:
            at, other = dice.randrange(len(data)), dice.randrange(len(data))
            return data[:at] + data[other:] + data[at:other]
        case 5:
            return _nested(dice.choice((10, 99, 101, 5_000)))
    return data


def _nested(depth: int) -> bytes:
    """Messages within messages within messages, in field 1."""
    data = b""
    for _ in range(depth):
        data = b"\x0a" + _varint(len(data)) + data
    return data


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _text(dice: random.Random, known: list[str]) -> str:
    return dice.choice(known if dice.random() < 0.6 else ODD)


def _prepare(dice: random.Random, known: Known) -> bytes:
    request = jobs.PrepareJobRequest(job_name=_text(dice, ["job"]))
    request.pipeline.ParseFromString(dice.choice(known.pipelines))
    components = request.pipeline.components
    for _ in range(dice.choice((0, 1, 3))):
        kinds = ("transforms", "pcollections", "coders", "windowing_strategies", "environments")
        entries = getattr(components, dice.choice(kinds))
        keys = sorted(entries)
        if not keys:
            continue
        match dice.randrange(4):
            case 0:
                del entries[dice.choice(keys)]
            case 1:
                entries[_text(dice, keys)].CopyFrom(entries[dice.choice(keys)])
            case 2:
                entries[dice.choice(keys)].Clear()
            case _:
                _change(dice, entries[dice.choice(keys)], known)
    for name in dice.sample(ODD, 2):
        request.pipeline_options[f"beam:option:{name}:v1"] = dice.choice((1, "x", True, [1, [2]]))
    for environment in components.environments.values():
        if dice.random() < 0.3:
            environment.dependencies.append(_artifact(dice))
    return bytes(request.SerializeToString())


def _change(dice: random.Random, message: Any, known: Known) -> None:
    for field, value in message.ListFields():
        if isinstance(value, str) and dice.random() < 0.5:
            setattr(message, field.name, _text(dice, known.jobs))
        elif isinstance(value, bytes) and dice.random() < 0.5:
            setattr(message, field.name, dice.randbytes(20))
        elif hasattr(value, "ListFields"):
            _change(dice, value, known)


def _artifact(dice: random.Random) -> Any:
    payloads = (
        runner.ArtifactFilePayload(path=dice.choice(ODD), sha256=dice.choice(ODD)),
        runner.ArtifactUrlPayload(url=dice.choice(ODD), sha256=dice.choice(ODD)),
        runner.EmbeddedFilePayload(data=dice.randbytes(dice.choice((0, 9, 100_000)))),
    )
    kinds = ("file", "url", "embedded", "deferred", "maven", dice.choice(ODD))
    return runner.ArtifactInformation(
        type_urn=f"beam:artifact:type:{dice.choice(kinds)}:v1",
        type_payload=dice.choice(payloads).SerializeToString(),
        role_urn=dice.choice(("beam:artifact:role:staging_to:v1", dice.choice(ODD))),
        role_payload=runner.ArtifactStagingToRolePayload(
            staged_name=dice.choice(ODD)
        ).SerializeToString(),
    )


def _run(dice: random.Random, known: Known) -> bytes:
    request = jobs.RunJobRequest(preparation_id=_text(dice, known.preparations))
    return bytes(request.SerializeToString())


def _stage(dice: random.Random, known: Known) -> bytes:
    answer = artifacts.ArtifactResponseWrapper()
    match dice.randrange(4):
        case 0 | 1:
            answer.staging_token = _text(dice, known.tokens)
        case 2:
            answer.get_artifact_response.data = dice.randbytes(dice.choice((0, 10, 50_000)))
            answer.is_last = dice.random() < 0.5
        case _:
            answer.resolve_artifact_response.replacements.append(_artifact(dice))
    return bytes(answer.SerializeToString())


def _get(dice: random.Random, known: Known) -> bytes:
    return bytes(artifacts.GetArtifactRequest(artifact=_artifact(dice)).SerializeToString())


def _resolve(dice: random.Random, known: Known) -> bytes:
    found = [_artifact(dice) for _ in range(dice.choice((0, 1, 9)))]
    return bytes(artifacts.ResolveArtifactsRequest(artifacts=found).SerializeToString())


def _observe(dice: random.Random, known: Known) -> bytes:
    name = _text(dice, known.jobs).replace('"', "")
    texts = (f'{{"job_id": "{name}"}}', "{}", "[]", "[" * 5_000, '{"job_id": {}}', "null", "1e999")
    return dice.choice(texts).encode("utf-8", "replace")


def _with_a_job(dice: random.Random, known: Known) -> bytes:
    """Sets field 1, which is the job id in all messages that name a job."""
    return bytes(jobs.GetJobStateRequest(job_id=_text(dice, known.jobs)).SerializeToString())


_BUILDERS: dict[str, Callable[[random.Random, Known], bytes]] = {
    f"{JOB}/Prepare": _prepare,
    f"{JOB}/Run": _run,
    STAGE: _stage,
    f"{RETRIEVE}/GetArtifact": _get,
    f"{RETRIEVE}/ResolveArtifacts": _resolve,
    **{
        f"{OBSERVE}/{name}": _observe
        for name in ("ListJobs", "GetExecution", "GetStacks", "GetStory")
    },
}


def _methods() -> Iterator[str]:
    yield from _BUILDERS
    names = ("GetJobs", "GetState", "GetPipeline", "Cancel", "Drain", "GetStateStream")
    for name in (*names, "GetMessageStream", "GetJobMetrics", "DescribePipelineOptions"):
        yield f"{JOB}/{name}"
    yield from (f"{JOB}/None", "/None/None", f"{JOB}/../Run")


METHODS = tuple(_methods())
