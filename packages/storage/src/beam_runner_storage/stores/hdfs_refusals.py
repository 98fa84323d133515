"""Reasons of errors from HDFS and the HDFS client: one line with the fix, and whether the error is
transient.
"""

from __future__ import annotations

import os
import re

import attrs

from beam_runner_storage.stores.hdfs_calls import NoResponseError

_RPC = re.compile(r'(?:Fatal)?RPCError\("([\w.$]+)", "(.*)"\)', re.DOTALL)
_NO_TICKET = (
    "this HDFS requires Kerberos: get a valid ticket on this machine (kinit; klist"
    " shows tickets), or set HADOOP_TOKEN_FILE_LOCATION to a file with a delegation"
    " token"
)
_NO_ROOM = "no running data node has enough free space: see hdfs dfsadmin -report"
_UNREACHABLE = (
    "either no namenode is running at that address and port (use the port for clients,"
    " usually 8020, not the port of the web pages), or a data node is unreachable: see"
    " hdfs dfsadmin -report"
)
_QUOTA = "the quota of a parent folder is exhausted: raise the quota, or use another folder"


@attrs.frozen
class _HdfsErrorKind:
    """Kind of HDFS errors, which a part of the error text identifies.

    Attributes:
        sign: part of the error text that identifies the kind.
        remedy: fix for the user.
        is_transient: whether the error can be transient.
    """

    sign: str
    remedy: str
    is_transient: bool = False


_KINDS = (
    _HdfsErrorKind(
        "SIMPLE authentication is not enabled",
        "this HDFS requires Kerberos: set HADOOP_CONF_DIR to the folder of the"
        " cluster's core-site.xml, which enables Kerberos",
    ),
    _HdfsErrorKind(
        "AccessControlException",
        "the user needs permission to write, read, list and delete files below this folder",
    ),
    _HdfsErrorKind(
        "SafeModeException",
        "wait for the end of safe mode; hdfs dfsadmin -safemode get shows the state",
        is_transient=True,
    ),
    _HdfsErrorKind(
        "StandbyException",
        "the URL names no active namenode: use the name service instead, and set"
        " HADOOP_CONF_DIR to a folder whose hdfs-site.xml defines it",
        is_transient=True,
    ),
    _HdfsErrorKind("QuotaExceededException", _QUOTA),
    _HdfsErrorKind("QuotaByStorageTypeExceededException", _QUOTA),
    _HdfsErrorKind("could only be written to", _NO_ROOM, is_transient=True),
    _HdfsErrorKind(
        "ParentNotDirectoryException", "a file exists at the path of a folder: use another folder"
    ),
    _HdfsErrorKind("InvalidToken", "get a new delegation token"),
    _HdfsErrorKind("GSSAPIError", _NO_TICKET),
    _HdfsErrorKind("SASLError", _NO_TICKET),
    _HdfsErrorKind("NoSASLMechanism", _NO_TICKET),
    _HdfsErrorKind("gssapi", "install gssapi's library (Debian: libgssapi-krb5-2)"),
    _HdfsErrorKind(
        "No NameNode hosts found",
        "use hdfs://HOST:PORT/FOLDER, or set HADOOP_CONF_DIR to a folder whose"
        " hdfs-site.xml defines this name service{conf}",
    ),
    _HdfsErrorKind(
        "No viewfs fallback mount found",
        "the HDFS client needs a linkFallback in the mount table; set HADOOP_CONF_DIR"
        " to the folder of the mount table{conf}",
    ),
    _HdfsErrorKind(
        "failed to lookup address", "this machine can't resolve the host name", is_transient=True
    ),
)


@attrs.frozen
class HdfsErrorReason:
    """Reason of an HDFS failure, and whether a retry can succeed.

    Attributes:
        reason: reason in one line.
        is_transient: whether a retry can succeed.
    """

    reason: str
    is_transient: bool


def explain_error(error: Exception) -> HdfsErrorReason:
    """Returns the reason of a client error; an unknown error counts as transient."""
    text = _extract_error_text(error)
    whole = f"{type(error).__name__} {error}"
    for kind in _KINDS:
        if kind.sign in whole:
            return HdfsErrorReason(
                f"{text}; {kind.remedy.format(conf=_describe_configuration())}", kind.is_transient
            )
    if isinstance(error, OSError) and error.errno is not None:
        return HdfsErrorReason(
            text, is_transient=False
        )  # errors of the HDFS client have no errno, so this error comes from this machine
    if isinstance(error, OSError | NoResponseError):
        return HdfsErrorReason(f"{text}; {_UNREACHABLE}", is_transient=True)
    return HdfsErrorReason(text, is_transient=True)


def _extract_error_text(error: Exception) -> str:
    said = str(error)
    if found := _RPC.fullmatch(said):
        said = f"{found[1].rpartition('.')[2]}: {_unescape_reason(found[2])}"
    return said.strip().partition("\n")[0].strip().rstrip(".") or type(error).__name__


def _unescape_reason(text: str) -> str:
    return text.replace('\\"', '"').replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")


def _describe_configuration() -> str:
    folder = os.environ.get("HADOOP_CONF_DIR")
    return f" (it is {folder})" if folder else " (it is not set)"
