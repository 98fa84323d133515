"""Tests of bundle output: small output is inline, and large output is in one file, in parts with
correct statistics.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from beam_runner_engine.scheduler.events import Output
from beam_runner_model.buffers import BufferKind, BufferPlan
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.window_coders import encode_window
from beam_runner_model.window_fns import FixedWindows, OpaqueWindows
from beam_runner_model.windows import GLOBAL_WINDOW, IntervalWindow, OpaqueWindow
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_buffers import buffer

from beam_runner_data.rows import written
from beam_runner_data.rows.files import read_referenced_rows
from beam_runner_data.rows.refs import FileRows, InlineRows
from beam_runner_data.rows.row import Row, RowKind
from beam_runner_data.rows.written import INLINE_BYTES, RowBufferWriter

KB = 1024


def row(size: int = 10, shard: int = 0, count: int = 1, **more: object) -> Row:
    return Row(shard, RowKind.ELEMENTS, b"x" * size, count, **more)  # type: ignore[arg-type]


def write(
    folder: Path, kind: BufferKind | BufferPlan, *rows: Row, pieces: int = 4
) -> tuple[Output, ...]:
    plan = buffer("b", kind) if isinstance(kind, BufferKind) else kind
    buffered = RowBufferWriter(plan, pieces, folder, "1-2-3-0")
    for one in rows:
        buffered.write(one)
    return buffered.close()


def data_of(folder: Path, outputs: tuple[Output, ...]) -> list[bytes]:
    return [
        bytes(memoryview(data))
        for output in outputs
        for _, data in read_referenced_rows(folder, output.data.ref)
    ]


def test_empty_output_writes_no_data(tmp_path: Path) -> None:
    for kind in BufferKind:
        assert write(tmp_path, kind) == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("works", "together"), [((3, 4), 7), ((3, None), None), ((None, None), None)]
)
def test_work_size_of_output_is_sum_of_work_sizes_of_rows(
    works: tuple[int | None, ...], together: int | None, tmp_path: Path
) -> None:
    (output,) = write(tmp_path, BufferKind.DEALT, *[row(work=one) for one in works])
    assert output.data.facts.work == together


@pytest.mark.parametrize("rows", [1, 4])
def test_output_within_limit_is_stored_inline(tmp_path: Path, rows: int) -> None:
    outputs = write(tmp_path, BufferKind.STORED, *[row(INLINE_BYTES // rows)] * rows)
    assert all(isinstance(output.data.ref, InlineRows) for output in outputs)
    assert list(tmp_path.iterdir()) == []
    assert data_of(tmp_path, outputs) == [b"x" * (INLINE_BYTES // rows)] * rows


@pytest.mark.parametrize("sizes", [[INLINE_BYTES + 1], [KB] * 33, [1, INLINE_BYTES, 1]])
def test_output_above_limit_is_written_to_one_file(tmp_path: Path, sizes: list[int]) -> None:
    outputs = write(tmp_path, BufferKind.STORED, *map(row, sizes))
    assert {output.data.ref.path for output in outputs} == {"1-2-3-0.arrow"}
    assert [path.name for path in tmp_path.iterdir()] == ["1-2-3-0.arrow"]
    assert data_of(tmp_path, outputs) == [b"x" * size for size in sizes]


def test_aborted_output_leaves_no_file(tmp_path: Path) -> None:
    for close in (False, True):
        buffered = RowBufferWriter(buffer("b", BufferKind.STORED), 4, tmp_path, "name")
        buffered.write(row(INLINE_BYTES + 1))
        if close:
            buffered.close()
        buffered.discard()
        assert list(tmp_path.iterdir()) == []
    RowBufferWriter(buffer("b", BufferKind.STORED), 4, tmp_path, "name").discard()


written_rows = st.lists(
    st.builds(row, st.integers(0, 50), st.integers(0, 3), st.integers(1, 9)), max_size=30
)


@pytest.mark.parametrize("limit", [-1, 10**9], ids=["file", "inline"])
@pytest.mark.parametrize("kind", list(BufferKind))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=written_rows, pieces=st.integers(1, 5), piece_bytes=st.integers(1, 200))
def test_split_output_contains_each_row_once_with_correct_statistics(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    kind: BufferKind,
    rows: list[Row],
    pieces: int,
    piece_bytes: int,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(written, "INLINE_BYTES", limit)
        patch.setattr(written, "PIECE_BYTES", piece_bytes)
        outputs = write(tmp_path, kind, *rows, pieces=pieces)
    assert len({output.data.ref for output in outputs}) == len(outputs)
    facts = [output.data.facts for output in outputs]
    assert sum(each.count for each in facts) == sum(one.count for one in rows)
    assert sum(each.size for each in facts) == sum(len(one.data) for one in rows)
    for output in outputs:
        assert output.collection == "b"
        found = data_of(tmp_path, (output,))
        assert output.data.facts.size == sum(map(len, found))
        assert output.data.facts.count > 0
    if kind is BufferKind.STORED:
        assert data_of(tmp_path, outputs) == [one.data for one in rows]
        assert len(outputs) <= pieces + 1
    if kind.is_keyed:
        assert sorted(f.shard for f in facts if f.shard is not None) == sorted(
            {one.shard for one in rows}
        )
    elif kind is BufferKind.DEALT:
        assert len(facts) == len({one.shard for one in rows})
    if not kind.is_keyed:
        assert {each.shard for each in facts} <= {None}


@pytest.mark.parametrize("kind", [BufferKind.STORED, BufferKind.DEALT, BufferKind.KEYED])
def test_output_is_split_by_window_if_required(tmp_path: Path, kind: BufferKind) -> None:
    windows = [IntervalWindow(0, 10), IntervalWindow(10, 20)]
    rows = [
        row(shard=shard, windows=frozenset((encode_window(window),)))
        for window in windows
        for shard in (0, 1, 0)
    ]
    plan = BufferPlan("b", kind, WindowingStrategy(FixedWindows(10)), windows=True)
    outputs = write(tmp_path, plan, *rows)
    told = [output.data.facts.windows for output in outputs]
    assert set(told) == {frozenset((window,)) for window in windows}
    assert len(outputs) == (2 if kind is BufferKind.STORED else 4)
    assert sum(output.data.facts.count for output in outputs) == len(rows)


def test_output_of_shard_contains_only_its_rows(tmp_path: Path) -> None:
    rows = [Row(n % 3, RowKind.KEYED, b"%d" % n, n + 1, 100 - n) for n in range(9)]
    outputs = write(tmp_path, BufferKind.GROUPED, *rows)
    for output in outputs:
        facts = output.data.facts
        mine = [one for one in rows if one.shard == facts.shard]
        assert data_of(tmp_path, (output,)) == [one.data for one in mine]
        assert facts.count == sum(one.count for one in mine)
        assert facts.min_timestamp == min(one.min_timestamp for one in mine)


def test_large_stored_output_is_split_for_several_readers(tmp_path: Path) -> None:
    outputs = write(tmp_path, BufferKind.STORED, *[row(512 * KB)] * 16, pieces=4)
    assert [len(output.data.ref.rows) for output in outputs] == [4, 4, 4, 4]


def test_small_stored_output_is_not_split(tmp_path: Path) -> None:
    (output,) = write(tmp_path, BufferKind.STORED, *[row(KB)] * 100, pieces=4)
    assert isinstance(output.data.ref, FileRows)


SIDE = BufferKind.SIDE_MULTIMAP
FIXED = WindowingStrategy(window_fn=FixedWindows(10))


@pytest.mark.parametrize(
    ("strategy", "told", "windows"),
    [
        (WindowingStrategy(), {encode_window(GLOBAL_WINDOW)}, {GLOBAL_WINDOW}),
        (
            FIXED,
            {encode_window(IntervalWindow(0, 10)), encode_window(IntervalWindow(10, 20))},
            {IntervalWindow(0, 10), IntervalWindow(10, 20)},
        ),
        (
            WindowingStrategy(OpaqueWindows("custom")),
            {encode_window(OpaqueWindow(b"any", 5)), encode_window(OpaqueWindow(b"thing", 5))},
            {OpaqueWindow(b"any", 5), OpaqueWindow(b"thing", 5)},
        ),
    ],
)
def test_side_input_output_lists_its_windows(
    tmp_path: Path, strategy: WindowingStrategy, told: set[bytes], windows: set[object]
) -> None:
    rows = [row(windows=frozenset({each})) for each in sorted(told)]
    (output,) = write(tmp_path, BufferPlan("b", SIDE, strategy), *rows)
    assert output.data.facts.windows == windows


def test_output_without_windows_in_row_lists_no_windows(tmp_path: Path) -> None:
    rows = row(windows=frozenset({encode_window(GLOBAL_WINDOW)})), row()
    (output,) = write(tmp_path, BufferPlan("b", SIDE, WindowingStrategy()), *rows)
    assert output.data.facts.windows is None


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 300)), min_size=1, max_size=60),
    st.sampled_from([BufferKind.GROUPED, BufferKind.KEYED, BufferKind.DEALT]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_of_shard_are_adjacent_in_file_if_fetched_separately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[tuple[int, int]], kind: BufferKind
) -> None:
    monkeypatch.setattr(written, "REQUEST_BYTES", 500)
    made = RowBufferWriter(buffer("b", kind), 4, tmp_path, "1-2-3-0", 0, in_extents=True)
    for number, (shard, size) in enumerate(rows):
        made.write(row(size + 1, shard, number + 1))
    by_shard: dict[int, list[int]] = {}
    for shard, size in rows:
        by_shard.setdefault(shard, []).append(size + 1)
    outputs = made.close()
    found = [[len(one) for one in data_of(tmp_path, (output,))] for output in outputs]
    assert sorted(found) == sorted(by_shard.values())
    refs = [output.data.ref for output in outputs]
    if len(rows) * 64 > 500:
        for ref in refs:
            assert isinstance(ref, FileRows)
            assert list(ref.rows) == list(range(ref.rows[0], ref.rows[-1] + 1))


def test_output_file_smaller_than_request_is_not_reordered(tmp_path: Path) -> None:
    made = RowBufferWriter(buffer("b", BufferKind.GROUPED), 4, tmp_path, "1-2-3-0", in_extents=True)
    for shard in (0, 1, 0, 1):
        made.write(row(INLINE_BYTES, shard))
    assert [output.data.ref.rows for output in made.close()] == [(0, 2), (1, 3)]  # type: ignore[union-attr]
