"""History of one bundle: records of everything that the journal of the bundle's job contains about the bundle."""

from __future__ import annotations

import enum

import attrs

from beam_runner_model.failures import FailedBundle
from beam_runner_model.times import Timestamp


class BundleStatus(enum.StrEnum):
    """Status of a bundle, according to the journal of its job."""

    OPEN = "open"
    """The bundle is planned, and isn't committed yet."""
    COMMITTED = "committed"
    CANCELLED = "cancelled"
    """The scheduler dropped the bundle, because the job ended."""
    REFUSED = "refused"
    """The bundle was a section (several stages in one Spark job), which the driver refused. Each stage
    runs in separate bundles instead.
    """
    COMPACTED = "compacted"
    """The bundle ended before the latest snapshot of the journal, which has replaced its entries."""
    UNKNOWN = "unknown"
    """No bundle has this number."""
    NO_JOURNAL = "no_journal"
    """The job has no journal, because the job has not begun, or because the server has removed the
    journal of the ended job.
    """

    @classmethod
    def _missing_(cls, value: object) -> BundleStatus:
        return cls.UNKNOWN


class HistoryEventKind(enum.StrEnum):
    """Kind of an event in the history of a bundle."""

    SNAPSHOT = "snapshot"
    """The bundle was open when the latest snapshot was taken; earlier entries are gone."""
    PLANNED = "planned"
    """The scheduler opened the bundle for its first attempt."""
    RETRIED = "retried"
    """The scheduler opened the bundle for another attempt."""
    FAILED = "failed"
    """An attempt failed."""
    SPLIT = "split"
    """The running bundle was split, and gave a part of its input to another bundle."""
    COMMITTED = "committed"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> HistoryEventKind:
        return cls.OTHER


@attrs.frozen
class DataPiece:
    """Data that a bundle reads or writes.

    Attributes:
        name: the name of the collection or the side input; ``state`` for the state of a key shard,
            ``residual`` for the rest of a split bundle, ``input`` for the main input.
        file: the path of the file in the job's folder; empty if the rows are in the journal itself.
        elements: the number of elements.
        bytes: the size of the elements in bytes.
        min_timestamp: the earliest event time (ms); None if the elements have no event time.
    """

    name: str
    file: str = ""
    elements: int = 0
    bytes: int = 0
    min_timestamp: Timestamp | None = None


@attrs.frozen
class HistoryEvent:
    """Event in the history of a bundle.

    Attributes:
        kind: the kind of the event.
        entry: the number of the journal entry that records the event.
        attempt: the number of the attempt.
        time: the processing time of the job (ms).
        lane: the number of the lane that ran the attempt; None if the journal has no lane.
        host: the machine of the worker process; empty if the journal has no machine.
        pid: the process id of the worker process.
        reads: the data that the attempt reads.
        writes: the data that was committed or handed over to other bundles.
        failure: the failure of the attempt.
        reason: the reason for which a section was refused.
    """

    kind: HistoryEventKind = attrs.field(converter=HistoryEventKind)
    entry: int = 0
    attempt: int = 0
    time: Timestamp = 0
    lane: int | None = None
    host: str = ""
    pid: int = 0
    reads: tuple[DataPiece, ...] = ()
    writes: tuple[DataPiece, ...] = ()
    failure: FailedBundle | None = None
    reason: str = ""


@attrs.frozen
class BundleHistory:
    """History of one bundle according to the journal.

    Attributes:
        bundle: the number of the bundle.
        status: the status of the bundle in the journal.
        stage: the id of the bundle's stage.
        steps: the full names of the transforms in the stage.
        shard: the key shard of the bundle; None if the stage isn't keyed.
        happened: the events of the bundle, oldest first.
        first_entry: the number of the first entry after the latest snapshot.
        next_bundle: the number of the next bundle of the job.
    """

    bundle: int
    status: BundleStatus = attrs.field(converter=BundleStatus)
    stage: str = ""
    steps: tuple[str, ...] = ()
    shard: int | None = None
    happened: tuple[HistoryEvent, ...] = ()
    first_entry: int = 0
    next_bundle: int = 0


def render_bundle_status(story: BundleHistory) -> str:
    """Returns one sentence about the status of a bundle."""
    name = f"bundle {story.bundle}"
    match story.status:
        case BundleStatus.OPEN:
            return f"{name} is open: it runs, waits to run, or waits for its next attempt"
        case BundleStatus.COMMITTED:
            return f"{name} is committed"
        case BundleStatus.CANCELLED:
            return f"{name} was cancelled with its job"
        case BundleStatus.REFUSED:
            return (
                f"{name} was a section that can't run as one: its stages have bundles of their own"
            )
        case BundleStatus.COMPACTED:
            return (
                f"{name} ended before entry {story.first_entry} of the journal. The snapshot there has replaced"
                " the earlier entries, so nothing more is known of the bundle"
            )
        case BundleStatus.NO_JOURNAL:
            return (
                "the job has no journal: it has not begun, or it has ended, and its journal was removed. The journal"
                " of a stream that failed or was cancelled stays for --keep-failed-streams"
            )
    last = f"the last one is bundle {story.next_bundle - 1}" if story.next_bundle else "it has none"
    return f"the job has no {name}: {last}"


def render_history_event(step: HistoryEvent) -> str:
    """Returns one sentence about an event in a bundle's history, without the event's data."""
    where = f" by process {step.pid} on {step.host}" if step.host else ""
    if step.lane is not None:
        where = f" on lane {step.lane}{where}"
    attempt = f"attempt {step.attempt}"
    match step.kind:
        case HistoryEventKind.SNAPSHOT:
            return f"was open at {attempt} when the snapshot was taken"
        case HistoryEventKind.PLANNED:
            return f"planned, {attempt}"
        case HistoryEventKind.RETRIED:
            return f"planned again, {attempt}"
        case HistoryEventKind.FAILED if step.failure is not None:
            at = f" at {step.failure.step!r}" if step.failure.step else ""
            element = f", at the element {step.failure.element}" if step.failure.element else ""
            return f"{attempt} failed{where}{at}: {step.failure.error}{element}"
        case HistoryEventKind.SPLIT:
            return f"{attempt} gave a part of its input away"
        case HistoryEventKind.COMMITTED:
            return f"{attempt} committed{where}"
        case HistoryEventKind.CANCELLED:
            return f"cancelled, {attempt}"
        case HistoryEventKind.REFUSED:
            return f"{attempt} was refused as a section: {step.reason}"
    return f"{attempt}: {step.kind.value}"


def render_data_piece(piece: DataPiece) -> str:
    """Returns one line that describes data that a bundle reads or writes."""
    where = f"file {piece.file}" if piece.file else "in the journal"
    since = "" if piece.min_timestamp is None else f", from event time {piece.min_timestamp} ms"
    return f"{piece.name}: {piece.elements} elements, {piece.bytes} bytes, {where}{since}"


def render_bundle_history(story: BundleHistory) -> list[str]:
    """Returns the lines that describe a bundle's history, for a terminal."""
    lines = [render_bundle_status(story)]
    if story.stage:
        shard = "" if story.shard is None else f", key shard {story.shard}"
        lines.append(f"stage {story.stage}{shard}: {' + '.join(story.steps)}")
    for step in story.happened:
        lines.append(f"[entry {step.entry}, at {step.time} ms] {render_history_event(step)}")
        lines += [f"    reads {render_data_piece(piece)}" for piece in step.reads]
        lines += [f"    writes {render_data_piece(piece)}" for piece in step.writes]
    return lines
