"""Rows of Spark tables as elements of a stage: Spark tasks write and read them in batches.

One element is one batch: its schema and columns in the Arrow stream format. The element is in the
global window. Its timestamp is the earliest timestamp of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import attrs
from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.coders.coders import BytesCoder, GlobalWindowCoder, WindowedValueCoder
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import Timestamp
from beam_runner_data.fetching.file_cache import FileCache
from beam_runner_data.rows.files import read_referenced_rows
from beam_runner_data.rows.refs import FileRows
from beam_runner_data.rows.row import build_element_row
from beam_runner_data.rows.written import RowBufferWriter
from beam_runner_engine.scheduler.commands import Input
from beam_runner_engine.scheduler.events import Output
from beam_runner_model.buffers import BufferPlan
from beam_runner_model.chunks import ElementChunk
from beam_runner_model.times import MIN_TIMESTAMP

from beam_runner_runtime.bundles.inputs import read_element_chunks

_ELEMENT = WindowedValueCoder(BytesCoder(), GlobalWindowCoder()).get_impl()


@attrs.frozen
class ElementsWriter:
    """Writer of the elements that one Spark task reads from a table, into the output buffers of the
    stage.

    Attributes:
        files: file cache of the job.
        name: name that is unique to this task attempt.
        buffers: output buffers of the stage, all of which are written to files.
        pieces: maximum number of chunks that the output is split into.
    """

    files: FileCache
    name: str
    buffers: Sequence[BufferPlan]
    pieces: int

    def write(self, elements: Iterable[bytes]) -> tuple[Output, ...]:
        """Writes all elements, without timestamps, and persists the files of the returned outputs.

        Raises:
            OSError: The files can't be written.
        """
        return self.write_timestamped_elements((MIN_TIMESTAMP, element) for element in elements)

    def write_timestamped_elements(
        self, elements: Iterable[tuple[int, bytes]]
    ) -> tuple[Output, ...]:
        """Writes pairs of event time (ms) and element, as `write` does."""
        writers = [
            RowBufferWriter(buffer, self.pieces, self.files.folder, f"{self.name}-{place}")
            for place, buffer in enumerate(self.buffers)
        ]
        try:
            for time, element in elements:
                value = GlobalWindows.windowed_value(element, Timestamp(micros=1000 * time))
                chunk = ElementChunk(1, _ELEMENT.encode_nested(value), min_timestamp=time)
                row = build_element_row(0, chunk)
                for writer in writers:
                    writer.write(row)
            outputs = tuple(output for writer in writers for output in writer.close())
            refs = (output.data.ref for output in outputs)
            paths = {ref.path for ref in refs if isinstance(ref, FileRows)}
            self.files.persist_files(sorted(paths))
        except BaseException:
            for writer in writers:
                writer.discard()
            raise
        return outputs


def read_elements_of_inputs(files: FileCache, inputs: Sequence[Input]) -> Iterator[bytes]:
    """Yields the elements in files that stages wrote.

    Raises:
        OSError: The files can't be fetched.
        RowsError: A file is missing or damaged.
    """
    files.fetch_referenced_files(ref for one in inputs if isinstance(ref := one.data.ref, FileRows))
    for chunk in read_element_chunks(partial(read_referenced_rows, files.folder), inputs):
        stream = create_InputStream(bytes(chunk.data))
        for number in range(chunk.count):
            element: bytes = _ELEMENT.decode_from_stream(stream, True).value
            if chunk.first <= number and (chunk.last is None or number < chunk.last):
                yield element
