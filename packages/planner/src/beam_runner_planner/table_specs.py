"""Payloads of the runner's own transforms that read or write a table of Spark.

A payload is JSON, so the server can parse it without running code of a client.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

import attrs

_Spec = TypeVar("_Spec", bound="_TablePayload")

FILE_FORMATS = frozenset({"avro", "csv", "json", "orc", "parquet", "text"})
"""The formats that Spark stores as files in a folder."""
DATABASE = "jdbc"
"""The format of database tables. A write fills a second table and then runs one transaction."""
STAGING = "_beam-"
"""The prefix of the folder that holds files before they move to the table's folder. Spark ignores such folders."""
VIEW = "beam_dataframe_"
"""The prefix of a view's name that stands for a DataFrame of the program in which the server runs."""
MODES = ("error", "ignore", "append", "overwrite")
"""The modes of a write if the target already contains data."""


_GIVEN_ONCE = frozenset({"socket"})
"""The formats whose data can't be read a second time."""

REFLECTION = ("reflect", "try_reflect", "java_method")
"""The functions of Spark SQL that run any Java method, including methods that end the server."""
_REFLECTION = re.compile(rf"\b({'|'.join(REFLECTION)})\s*\(", re.IGNORECASE)
"""The pattern of a probable call of these functions. The server's session refuses the calls that it misses."""

_LONGEST = 1000 * 366 * 24 * 3600 * 1000

_PLAIN_NAME = re.compile(r"(\w+\.)*\w+")


class InvalidTableSpec(ValueError):
    """A description of a table that is invalid; the text says why."""


def _format_options(options: Mapping[str, Any] | None) -> dict[str, str]:
    """Returns options in the form that Spark expects: texts, with booleans in Spark's spelling."""
    return {
        str(name): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in dict(options or {}).items()
    }


def find_table_option(options: Mapping[str, str], name: str) -> str:
    """Returns the value of an option, whose name is case-insensitive; empty if the option is not set."""
    return next((value for key, value in options.items() if key.lower() == name.lower()), "")


def _convert_to_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(names)


def _check_text(spec: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Raises an error for values that are not texts, or that UTF-8 can't encode, such as a lone surrogate."""
    if not isinstance(value, str):
        raise InvalidTableSpec(f"{field.name} must be a string, but is a {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidTableSpec(
            f"{field.name} contains characters that UTF-8 can't encode"
        ) from None


def _check_texts(spec: Any, field: attrs.Attribute[Any], value: Iterable[Any]) -> None:
    for one in value:
        _check_text(spec, field, one)


def _check_options(spec: Any, field: attrs.Attribute[Any], value: Mapping[Any, Any]) -> None:
    _check_texts(spec, field, (*value, *value.values()))


def _check_time(spec: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if type(value) is not int:
        raise InvalidTableSpec(f"{field.name} must be a duration, but is a {type(value).__name__}")
    if not 0 <= value <= _LONGEST:
        raise InvalidTableSpec(f"{field.name} must be a duration from 0 seconds to 1,000 years")


def _define_text_field(default: Any = attrs.NOTHING, *, repr: bool = True) -> Any:
    return attrs.field(default=default, validator=_check_text, repr=repr)


@attrs.frozen
class _TablePayload:
    KIND: ClassVar[str] = ""

    def to_payload(self) -> bytes:
        """Returns the specification as the payload of a transform."""
        return json.dumps(attrs.asdict(self), sort_keys=True).encode()

    @classmethod
    def from_payload(cls: type[_Spec], payload: bytes) -> _Spec:
        """Returns the specification in a payload of this version, or of an older version with fewer
        attributes.

        Raises:
            InvalidTableSpec: the payload is malformed, or has an attribute that this version doesn't
                know.
        """
        try:
            told = json.loads(payload)
            unknown = sorted(told.keys() - {field.name for field in attrs.fields(cls)})
            if unknown:
                raise InvalidTableSpec(
                    f"the payload has the attribute {unknown[0]!r:.100}, which this"
                    " version doesn't know: upgrade the server to the client's version"
                )
            return cls(**told)
        except InvalidTableSpec:
            raise
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise InvalidTableSpec(
                f"the payload of the transform doesn't describe a table to be {cls.KIND}"
            ) from error


@attrs.frozen
class TableSource(_TablePayload):
    """The source of a read. Exactly one of `format`, `table` and `sql` is set.

    Attributes:
        format: a format of Spark's readers, such as ``parquet`` or ``jdbc``; otherwise empty.
        table: a table or view of Spark's catalog; otherwise empty.
        sql: a query; otherwise empty.
        path: the path of the files, for a format that has files.
        options: options for the reader. Options can contain passwords, so the runner never shows
            options.
        columns: the selected columns in order; empty for all columns.
        where: a condition in SQL; empty for all rows.
        schema: the schema as Spark's JSON; empty if Spark infers it.
    """

    KIND: ClassVar[str] = "read"

    format: str = _define_text_field("")
    table: str = _define_text_field("")
    sql: str = _define_text_field("")
    path: str = _define_text_field("")
    options: Mapping[str, str] = attrs.field(
        factory=dict, converter=_format_options, validator=_check_options, repr=False
    )
    columns: tuple[str, ...] = attrs.field(
        default=(), converter=_convert_to_names, validator=_check_texts
    )
    where: str = _define_text_field("")
    schema: str = _define_text_field("", repr=False)

    def __attrs_post_init__(self) -> None:
        if sum(map(bool, (self.format, self.table, self.sql))) != 1:
            raise InvalidTableSpec("set exactly one of format, table and sql")
        if self.path and not self.format:
            raise InvalidTableSpec("path is set without a format: set format, too")
        for text in (self.sql, self.where):
            called = _REFLECTION.search(text.replace("`", ""))
            if called:
                raise InvalidTableSpec(
                    f"{called[1]} calls Java in the server, which other jobs share:"
                    " call Java in a transform instead"
                )

    @property
    def name(self) -> str:
        """The display name of the source, for messages to users."""
        if self.sql:
            return "a query"
        return self.table or f"{self.format} {self.path or self.options.get('dbtable', '')}".strip()


@attrs.frozen
class StreamSource(TableSource):
    """The source of a streaming read, which always has a format. If it has a schema, the source has
    only the columns of the schema.

    Attributes:
        timestamp: the column of event times; empty if rows get the time at which they are read.
        max_lateness: how much (ms) the event time of a row may lie behind the latest row.
        poll: the pause (ms) between the end of the available data and the next look for new data.
    """

    timestamp: str = _define_text_field("")
    max_lateness: int = attrs.field(default=0, validator=_check_time)
    poll: int = attrs.field(default=1000, validator=_check_time)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not self.format:
            raise InvalidTableSpec(
                "a streaming read needs a format; it can't read a table or a query"
            )
        if self.format.lower() in _GIVEN_ONCE:
            raise InvalidTableSpec(
                f"the format {self.format} delivers its data once, but a streaming"
                " source must deliver it again after a failure: read a source that"
                " retains its data, such as kafka or files"
            )
        if self.has_files and not self.path:
            raise InvalidTableSpec(
                f"a stream of {self.format} files needs path=, the folder of the files"
            )
        if self.has_files and self.format.lower() != "text" and not self.schema:
            raise InvalidTableSpec(
                f"a stream of {self.format} files needs schema=: the folder can be"
                " empty, so Spark can't infer the schema"
            )
        options = {name.lower(): value.lower() for name, value in self.options.items()}
        if options.get("cleansource", "off") != "off":
            raise InvalidTableSpec(
                "the option cleanSource removes files before the runner has committed"
                " what it read of them: leave the option out"
            )
        if self.timestamp and self.columns and self.timestamp not in self.columns:
            raise InvalidTableSpec(
                f"the timestamp column {self.timestamp!r} must be one of the names in columns"
            )

    @property
    def has_files(self) -> bool:
        """Whether the source is a folder to which files are added."""
        return self.format.lower() in FILE_FORMATS

    @property
    def size_limits(self) -> Mapping[str, str]:
        """Returns options that limit the size of one read, unless the user has set such options."""
        if self.has_files:
            return {"maxFilesPerTrigger": "1000"}
        return {"maxOffsetsPerTrigger": "1000000"} if self.format.lower() == "kafka" else {}


@attrs.frozen
class TableTarget(_TablePayload):
    """The target of a write: files, a table of files in Spark's catalog, or a database table.

    Attributes:
        format: a format of Spark's writers, one of `FILE_FORMATS`, or `DATABASE`. Empty for an
            existing table of the catalog, or for Spark's default format.
        path: the folder of the files.
        mode: what to do if the target contains data, one of `MODES`.
        options: options for the writer. Options can contain secrets, so the runner never shows
            options.
        partition_by: the columns by which Spark partitions the files into folders.
        schema: the schema of the rows, as Spark's JSON.
        table: a table of Spark's catalog; otherwise empty.
    """

    KIND: ClassVar[str] = "written"

    format: str = _define_text_field("")
    path: str = _define_text_field("")
    mode: str = _define_text_field("error")
    options: Mapping[str, str] = attrs.field(
        factory=dict, converter=_format_options, validator=_check_options, repr=False
    )
    partition_by: tuple[str, ...] = attrs.field(
        default=(), converter=_convert_to_names, validator=_check_texts
    )
    schema: str = _define_text_field("", repr=False)
    table: str = _define_text_field("")

    def __attrs_post_init__(self) -> None:
        if self.table and self.path:
            raise InvalidTableSpec("table and path are both set: set one of them")
        if self.table and self.format not in FILE_FORMATS | {""}:
            raise InvalidTableSpec(
                f"format is {self.format!r}; for a table of the catalog expected one of"
                f" {', '.join(sorted(FILE_FORMATS))}"
            )
        if not self.table and self.format not in FILE_FORMATS | {DATABASE}:
            raise InvalidTableSpec(
                f"format is {self.format!r}; expected one of"
                f" {', '.join(sorted(FILE_FORMATS))}, or {DATABASE}: the runner can't"
                " write other formats exactly once"
            )
        if self.mode not in MODES:
            raise InvalidTableSpec(f"mode is {self.mode!r}; expected one of {', '.join(MODES)}")
        if self.is_database:
            self._check_database()
        elif not self.path and not self.table:
            raise InvalidTableSpec(f"the format {self.format} needs a path")

    def _check_database(self) -> None:
        if self.path or self.partition_by:
            raise InvalidTableSpec(
                f"the format {DATABASE} has no path and no partition_by: set options['dbtable']"
            )
        for name in ("url", "dbtable"):
            if not self.option(name):
                raise InvalidTableSpec(f"{DATABASE} needs options[{name!r}]")
        if not _PLAIN_NAME.fullmatch(self.dbtable):
            raise InvalidTableSpec(
                f"options['dbtable'] is {self.dbtable!r}; expected the name of a table,"
                " such as events or sales.events"
            )
        if self.option("isolationLevel").upper() == "NONE":
            raise InvalidTableSpec(
                "options['isolationLevel'] is NONE: leave the option out, because rows"
                " can be duplicated without transactions"
            )

    @property
    def is_database(self) -> bool:
        """Whether the target is a database table."""
        return self.format == DATABASE

    @property
    def dbtable(self) -> str:
        """The name of the database table."""
        return self.option("dbtable")

    def with_table(self, table: str) -> TableTarget:
        """Returns the same target with another table of the database."""
        others = {key: value for key, value in self.options.items() if key.lower() != "dbtable"}
        return attrs.evolve(self, options={**others, "dbtable": table})

    def option(self, name: str) -> str:
        """Returns the value of an option, see `find_table_option`."""
        return find_table_option(self.options, name)

    @property
    def name(self) -> str:
        """The display name of the target, for messages to users."""
        return self.table or f"{self.format} {self.location}"

    @property
    def location(self) -> str:
        """The target's table or path, for messages to users."""
        return self.table or (self.dbtable if self.is_database else self.path)

    def staging_folder(self, attempt: str) -> str:
        """Returns the folder for the files of an attempt. The folder is next to the table's files, so
        that a move is a rename.
        """
        return f"{self.path.rstrip('/')}/{STAGING}{attempt}"
