"""What a pipeline says of a table that is to be read or written: the payloads of our own transforms.

A payload is JSON: the server makes sense of it without running anything that a client sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

import attrs

_Spec = TypeVar("_Spec", bound="_Payload")

FILE_FORMATS = frozenset({"avro", "csv", "json", "orc", "parquet", "text"})
"""Formats that Spark keeps as files in a folder."""
DATABASE = "jdbc"
"""The format of tables in databases, written by way of a table beside and a transaction."""
STAGING = "_beam-"
"""How the folder begins in which files wait beside a table's own. Spark takes no notice of such."""
VIEW = "beam_dataframe_"
"""How the name of a view begins that is a DataFrame of the program in whose process the server is."""
MODES = ("error", "ignore", "append", "overwrite")
"""What is done where there is something already."""


_GIVEN_ONCE = frozenset({"socket"})
"""Formats of which nothing can be read again."""

REFLECTION = ("reflect", "try_reflect", "java_method")
"""Functions of Spark's SQL that run any Java method, as one that ends the server."""
_REFLECTION = re.compile(rf"\b({'|'.join(REFLECTION)})\s*\(", re.IGNORECASE)
"""What most likely calls one; what it does not find the session of the server refuses."""

_LONGEST = 1000 * 366 * 24 * 3600 * 1000

_PLAIN_NAME = re.compile(r"(\w+\.)*\w+")


class WrongTable(ValueError):
    """What is said of a table makes no sense; the text says why."""


def _options(options: Mapping[str, Any] | None) -> dict[str, str]:
    """Options as Spark takes them: texts, and booleans as it spells them."""
    return {
        str(name): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in dict(options or {}).items()
    }


def option_of(options: Mapping[str, str], name: str) -> str:
    """An option's value, in whatever case its name is spelt; empty if it is not given."""
    return next((value for key, value in options.items() if key.lower() == name.lower()), "")


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(names)


def _check_text(spec: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Refuses what is no text, or one that can't be sent to anybody, as half of a pair of UTF-16."""
    if not isinstance(value, str):
        raise WrongTable(f"{field.name} is to be a text, and not a {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise WrongTable(f"{field.name} has characters in it that are none") from None


def _check_texts(spec: Any, field: attrs.Attribute[Any], value: Iterable[Any]) -> None:
    for one in value:
        _check_text(spec, field, one)


def _check_options(spec: Any, field: attrs.Attribute[Any], value: Mapping[Any, Any]) -> None:
    _check_texts(spec, field, (*value, *value.values()))


def _check_time(spec: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if type(value) is not int:
        raise WrongTable(f"{field.name} is to be a time, and not a {type(value).__name__}")
    if not 0 <= value <= _LONGEST:
        raise WrongTable(f"{field.name} is a time of at least 0 seconds, and at most 1,000 years")


def _text(default: Any = attrs.NOTHING, *, repr: bool = True) -> Any:
    return attrs.field(default=default, validator=_check_text, repr=repr)


@attrs.frozen
class _Payload:
    KIND: ClassVar[str] = ""

    def to_payload(self) -> bytes:
        """As the payload of a transform."""
        return json.dumps(attrs.asdict(self), sort_keys=True).encode()

    @classmethod
    def from_payload(cls: type[_Spec], payload: bytes) -> _Spec:
        """What `to_payload` gave, of this version or an older one, which may have known fewer of the attributes.

        Raises:
            WrongTable: it is something else, or has an attribute that this version does not know.
        """
        try:
            told = json.loads(payload)
            unknown = sorted(told.keys() - {field.name for field in attrs.fields(cls)})
            if unknown:
                raise WrongTable(
                    f"its payload says {unknown[0]!r:.100}, which this version does not know: the client has a newer one"
                )
            return cls(**told)
        except WrongTable:
            raise
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise WrongTable(f"its payload does not say what is to be {cls.KIND}") from error


@attrs.frozen
class TableSource(_Payload):
    """What is to be read.

    Attributes:
        format: of Spark's readers, as in ``parquet`` or ``jdbc``; else empty.
        table: a table or view that Spark's catalog knows; else empty.
        sql: a query; else empty. One of these three is given.
        path: of a format that has files.
        options: for the reader; they may hold passwords, so they are never shown.
        columns: those wanted, in this order; none for all.
        where: a condition in SQL; empty for all rows.
        schema: of the columns, as Spark's JSON; empty if it is Spark's to tell.
    """

    KIND: ClassVar[str] = "read"

    format: str = _text("")
    table: str = _text("")
    sql: str = _text("")
    path: str = _text("")
    options: Mapping[str, str] = attrs.field(
        factory=dict, converter=_options, validator=_check_options, repr=False
    )
    columns: tuple[str, ...] = attrs.field(default=(), converter=_names, validator=_check_texts)
    where: str = _text("")
    schema: str = _text("", repr=False)

    def __attrs_post_init__(self) -> None:
        if sum(map(bool, (self.format, self.table, self.sql))) != 1:
            raise WrongTable("say one of format, table and sql")
        if self.path and not self.format:
            raise WrongTable("a path needs a format")
        for text in (self.sql, self.where):
            called = _REFLECTION.search(text.replace("`", ""))
            if called:
                raise WrongTable(
                    f"{called[1]} calls Java within the server, which other jobs use, too: do that in a transform"
                )

    @property
    def name(self) -> str:
        """For people."""
        if self.sql:
            return "a query"
        return self.table or f"{self.format} {self.path or self.options.get('dbtable', '')}".strip()


@attrs.frozen
class StreamSource(TableSource):
    """What is to be read as it comes. It has a format, and no columns but those of its schema, if it has one.

    Attributes:
        timestamp: the column of event times; empty if rows have the time at which they are read.
        max_lateness: how long (ms) after the latest row that was read earlier ones are still expected.
        poll: how long (ms) to wait after all was read, before it is looked for more.
    """

    timestamp: str = _text("")
    max_lateness: int = attrs.field(default=0, validator=_check_time)
    poll: int = attrs.field(default=1000, validator=_check_time)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not self.format:
            raise WrongTable("a stream is read by a format, and not as a table or a query")
        if self.format.lower() in _GIVEN_ONCE:
            raise WrongTable(
                f"{self.format} gives what it has once, and a stream's source must give it again after a"
                " failure: read one that keeps it, such as kafka, or files"
            )
        if self.has_files and not self.path:
            raise WrongTable(f"a stream of {self.format} files needs the path of their folder")
        if self.has_files and self.format.lower() != "text" and not self.schema:
            raise WrongTable(
                f"a stream of {self.format} files needs schema=: there may be none yet to ask"
            )
        options = {name.lower(): value.lower() for name, value in self.options.items()}
        if options.get("cleansource", "off") != "off":
            raise WrongTable(
                "cleanSource removes files before it is on record what was read of them: leave it off"
            )
        if self.timestamp and self.columns and self.timestamp not in self.columns:
            raise WrongTable(f"the column of times, {self.timestamp!r}, is to be one of columns")

    @property
    def has_files(self) -> bool:
        """Whether it is files that are added to a folder."""
        return self.format.lower() in FILE_FORMATS

    @property
    def share(self) -> Mapping[str, str]:
        """Options that bound how much is read at a time, where the user's own say nothing."""
        if self.has_files:
            return {"maxFilesPerTrigger": "1000"}
        return {"maxOffsetsPerTrigger": "1000000"} if self.format.lower() == "kafka" else {}


@attrs.frozen
class TableTarget(_Payload):
    """What is to be written: files, a table of Spark's catalog that is files, or a table of a database.

    Attributes:
        format: of Spark's writers, one of `FILE_FORMATS`, or `DATABASE`; empty for a table of the catalog that knows its own,
            or that is to have Spark's usual one.
        path: of the folder of files.
        mode: what is done where there is something already, one of `MODES`.
        options: for the writer; they may hold secrets, so they are never shown.
        partition_by: columns by whose values files are dealt into folders.
        schema: of the rows, as Spark's JSON.
        table: of Spark's catalog; else empty.
    """

    KIND: ClassVar[str] = "written"

    format: str = _text("")
    path: str = _text("")
    mode: str = _text("error")
    options: Mapping[str, str] = attrs.field(
        factory=dict, converter=_options, validator=_check_options, repr=False
    )
    partition_by: tuple[str, ...] = attrs.field(
        default=(), converter=_names, validator=_check_texts
    )
    schema: str = _text("", repr=False)
    table: str = _text("")

    def __attrs_post_init__(self) -> None:
        if self.table and self.path:
            raise WrongTable("a table of the catalog has no path: say one of both")
        if self.table and self.format not in FILE_FORMATS | {""}:
            raise WrongTable(
                f"tables of the catalog are written as {', '.join(sorted(FILE_FORMATS))}, not as {self.format!r}"
            )
        if not self.table and self.format not in FILE_FORMATS | {DATABASE}:
            raise WrongTable(
                f"rows are written as {', '.join(sorted(FILE_FORMATS))} or by {DATABASE}, not as {self.format!r}:"
                " nothing else can be written yet so that each row is there once, whatever ends meanwhile"
            )
        if self.mode not in MODES:
            raise WrongTable(f"mode is one of {', '.join(MODES)}, not {self.mode!r}")
        if self.is_database:
            self._check_database()
        elif not self.path and not self.table:
            raise WrongTable(f"{self.format} needs a path")

    def _check_database(self) -> None:
        if self.path or self.partition_by:
            raise WrongTable(f"{DATABASE} has no path and no folders: say options['dbtable']")
        for name in ("url", "dbtable"):
            if not self.option(name):
                raise WrongTable(f"{DATABASE} needs options[{name!r}]")
        if not _PLAIN_NAME.fullmatch(self.dbtable):
            raise WrongTable(
                f"options['dbtable'] is the name of a table, as in events or sales.events, not {self.dbtable!r}"
            )
        if self.option("isolationLevel").upper() == "NONE":
            raise WrongTable(
                "options['isolationLevel'] is to be left out: without transactions rows may be there twice"
            )

    @property
    def is_database(self) -> bool:
        """Whether it is a table of a database, and no files."""
        return self.format == DATABASE

    @property
    def dbtable(self) -> str:
        """Of a database: the table's name."""
        return self.option("dbtable")

    def beside(self, table: str) -> TableTarget:
        """The same with another table of that database."""
        others = {key: value for key, value in self.options.items() if key.lower() != "dbtable"}
        return attrs.evolve(self, options={**others, "dbtable": table})

    def option(self, name: str) -> str:
        """See `option_of`."""
        return option_of(self.options, name)

    @property
    def name(self) -> str:
        """For people."""
        return self.table or f"{self.format} {self.place}"

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return self.table or (self.dbtable if self.is_database else self.path)

    def staging(self, attempt: str) -> str:
        """Where the files of a writer's attempt wait: beside those of the table, so that they can be moved."""
        return f"{self.path.rstrip('/')}/{STAGING}{attempt}"
