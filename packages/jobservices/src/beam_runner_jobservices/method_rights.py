"""Rights that a user needs for each gRPC method, and the check of every call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import grpc

from beam_runner_jobservices.channels import AUTHORIZATION
from beam_runner_jobservices.users import Right, User
from beam_runner_jobservices.users_file import UsersFile

_MODEL = "/org.apache.beam.model.job_management.v1"
_OBSERVATION = "/beam_runner.observation.v1.JobObservation/"
_BEARER = "Bearer "

METHOD_RIGHTS: Mapping[str, Right] = {
    **{
        f"{_MODEL}.JobService/{name}": right
        for right, names in {
            Right.SUBMIT: ("Prepare", "Run"),
            Right.READ: (
                *("GetJobs", "GetState", "GetPipeline", "GetStateStream", "GetMessageStream"),
                "GetJobMetrics",
            ),
            Right.CANCEL: ("Cancel", "Drain"),
        }.items()
        for name in names
    },
    # A savepoint requires a right to change jobs, because it writes files, and contains the job's state.
    f"{_OBSERVATION}MakeSavepoint": Right.SUBMIT,
    f"{_OBSERVATION}RollBack": Right.SUBMIT,
    # A replay requires a right to change jobs, because it changes the job's results.
    f"{_OBSERVATION}ReplayQuarantine": Right.SUBMIT,
    f"{_MODEL}.ArtifactStagingService/ReverseArtifactRetrievalService": Right.SUBMIT,
    f"{_MODEL}.ArtifactRetrievalService/ResolveArtifacts": Right.READ,
    f"{_MODEL}.ArtifactRetrievalService/GetArtifact": Right.READ,
}
"""The right that a method requires. All other methods of the observation service require `read`. SDKs call
methods that aren't listed, such as DescribePipelineOptions, before a submission, so every user may call them.
"""


def find_required_right(method: str) -> Right | None:
    """Returns the right that a method requires; None if every user may call it."""
    return METHOD_RIGHTS.get(method, Right.READ if method.startswith(_OBSERVATION) else None)


def find_calling_user(users: UsersFile, metadata: Iterable[Any]) -> User | None:
    """Returns the user whose token a call sends; None if the call lacks a valid token, or sends several tokens."""
    given = [value for name, value in metadata if name == AUTHORIZATION]
    if len(given) != 1 or not isinstance(given[0], str) or not given[0].startswith(_BEARER):
        return None
    return users.find_user(given[0].removeprefix(_BEARER))


def describe_missing_right(user: User, right: Right, users: UsersFile) -> str:
    """Returns the sentence for a user who lacks a right."""
    return (
        f"user {user.name!r} doesn't have the right {right.value!r}; {users.path} lists the rights"
    )


class RightsInterceptor(grpc.ServerInterceptor):
    """gRPC interceptor that refuses calls without a user's token, and calls for which the user
    lacks the right, before the server reads their requests.
    """

    def __init__(self, users: UsersFile) -> None:
        self._users = users

    def intercept_service(self, continuation: Callable[[Any], Any], call: Any) -> Any:
        user = find_calling_user(self._users, call.invocation_metadata)
        if user is None:
            return REFUSED_TOKEN
        right = find_required_right(call.method)
        if right is None or right in user.rights:
            return continuation(call)
        text = describe_missing_right(user, right, self._users)
        return _make_refusal(grpc.StatusCode.PERMISSION_DENIED, text)


def _make_refusal(code: grpc.StatusCode, text: str) -> Any:
    """Returns a handler that refuses a call with a status.

    The handler is a streaming handler for all methods, because gRPC would first read the request of
    a unary call.
    """

    def refuse_call(requests: Any, context: grpc.ServicerContext) -> Any:
        context.abort(code, text)

    return grpc.stream_stream_rpc_method_handler(refuse_call)


REFUSED_TOKEN = _make_refusal(
    grpc.StatusCode.UNAUTHENTICATED,
    "this server requires a token: send it with every call as `authorization: Bearer <token>`",
)
"""The handler of a call without a valid token."""
