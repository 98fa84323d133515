"""Error reasons of HDFS and its client: one line with the fix, and whether the error is transient."""

from __future__ import annotations

import os
import re

import attrs

from beam_runner_storage.stores.hdfs_calls import NoAnswerError

_RPC = re.compile(r'(?:Fatal)?RPCError\("([\w.$]+)", "(.*)"\)', re.DOTALL)
_NO_TICKET = (
    "this HDFS wants Kerberos: get a ticket that it takes (kinit; klist tells what there is), on this machine, or a"
    " delegation token in HADOOP_TOKEN_FILE_LOCATION"
)
_NO_ROOM = "no data node has room for it, or none that has is up: hdfs dfsadmin -report tells"
_UNREACHABLE = (
    "either no namenode is up there, at that port (the one for clients, mostly 8020, not that of its pages), or a data"
    " node that it has named is not: hdfs dfsadmin -report tells"
)
_QUOTA = "the quota of a folder above is used up: raise it, or name another folder"


@attrs.frozen
class _Kind:
    """Kind of error reasons with a common text.

    Attributes:
        sign: part of the error text that identifies the kind.
        remedy: fix for the user.
        passes: whether the error can be transient.
    """

    sign: str
    remedy: str
    passes: bool = False


_KINDS = (
    _Kind(
        "SIMPLE authentication is not enabled",
        "this HDFS wants Kerberos: HADOOP_CONF_DIR has to name the folder of its core-site.xml, which says so",
    ),
    _Kind(
        "AccessControlException",
        "that user needs leave to write, read, list and remove below this folder",
    ),
    _Kind("SafeModeException", "hdfs dfsadmin -safemode get tells when it is over", passes=True),
    _Kind(
        "StandbyException",
        "no namenode that is named is the active one: name the name service, which hdfs-site.xml in HADOOP_CONF_DIR"
        " has to know, in place of one of them",
        passes=True,
    ),
    _Kind("QuotaExceededException", _QUOTA),
    _Kind("QuotaByStorageTypeExceededException", _QUOTA),
    _Kind("could only be written to", _NO_ROOM, passes=True),
    _Kind("ParentNotDirectoryException", "name another folder: there is a file in the way"),
    _Kind("InvalidToken", "get a new delegation token"),
    _Kind("GSSAPIError", _NO_TICKET),
    _Kind("SASLError", _NO_TICKET),
    _Kind("NoSASLMechanism", _NO_TICKET),
    _Kind("gssapi", "install it (Debian: libgssapi-krb5-2)"),
    _Kind(
        "No NameNode hosts found",
        "write hdfs://HOST:PORT/FOLDER, or have HADOOP_CONF_DIR name a folder whose hdfs-site.xml knows this name"
        " service{conf}",
    ),
    _Kind(
        "No viewfs fallback mount found",
        "its client wants a linkFallback in the table of mounts, which HADOOP_CONF_DIR has to name the folder of{conf}",
    ),
    _Kind("failed to lookup address", "no machine is known by that name here", passes=True),
)


@attrs.frozen
class Refusal:
    """Reason of a failure.

    Attributes:
        reason: reason in one line.
        passes: whether a retry can succeed.
    """

    reason: str
    passes: bool


def refusal(error: Exception) -> Refusal:
    """Returns the reason of a client error; an unknown error counts as transient."""
    text = _text(error)
    whole = f"{type(error).__name__} {error}"
    for kind in _KINDS:
        if kind.sign in whole:
            return Refusal(f"{text}; {kind.remedy.format(conf=_configured())}", kind.passes)
    if isinstance(error, OSError) and error.errno is not None:
        return Refusal(
            text, passes=False
        )  # an error of this machine: errors of the HDFS client have no errno
    if isinstance(error, OSError | NoAnswerError):
        return Refusal(f"{text}; {_UNREACHABLE}", passes=True)
    return Refusal(text, passes=True)


def _text(error: Exception) -> str:
    said = str(error)
    if found := _RPC.fullmatch(said):
        said = f"{found[1].rpartition('.')[2]}: {_unquoted(found[2])}"
    return said.strip().partition("\n")[0].strip().rstrip(".") or type(error).__name__


def _unquoted(text: str) -> str:
    return text.replace('\\"', '"').replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")


def _configured() -> str:
    folder = os.environ.get("HADOOP_CONF_DIR")
    return f" (it is {folder})" if folder else " (it is not set)"
