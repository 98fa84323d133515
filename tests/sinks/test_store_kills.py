"""Files in object stores contain each number once after kills and repeated commits.

S3 and Google Cloud Storage are moto, and Azure is Azurite. Emulators of Google's store that PyPI has don't
accept the requests of the store's client: they lack uploads of its XML interface, or exclusive creation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from azurite_server import azurite_server
from beam_runner_storage.stores.spec import parse_user_store
from beam_spark_io.files.sink import FileSink, name_window
from disturbances import check_numbers, run_disturbed
from moto_server import BUCKET, make_store, moto_server

pytestmark = pytest.mark.timeout(1500)
_PROBABILITY = 0.2
"""Probability of a crash before, and of a crash after, a commit: a window has few commits."""


@pytest.fixture(params=["s3", "gs", "az"])
def url(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Yields the URL of an empty prefix in a store that the workers reach."""

    def use(environment: Mapping[str, str]) -> str:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        # All servers of moto in a process have the same files.
        return f"{request.param}://{BUCKET}/{tmp_path.name}"

    if request.param == "az":
        with azurite_server() as environment:
            yield use(environment)
    else:
        with moto_server() as address:
            yield use(make_store(address, request.param))


def test_files_in_a_store_contain_each_number_once_after_killed_and_suspended_processes(
    url: str, temporary: Path, tmp_path: Path, kills: int, seed: int
) -> None:
    sink = FileSink(url, "jsonl", 2)
    done = run_disturbed(
        sink, 1, temporary, tmp_path, kills, seed, name_window, probability=_PROBABILITY
    )
    store = parse_user_store(url).open_store()
    names = [name for name in store.list_names() if not name.startswith("_beam/")]
    lines = [
        json.loads(line)
        for name in names
        if name.endswith(".jsonl")
        for line in store.read_file(name).splitlines()
    ]
    print(f"SINK {json.dumps({'sink': url, 'seed': seed, 'elements': len(lines), **done})}")
    check_numbers([(line["source"], line["number"]) for line in lines])
    folders = {name.rpartition("/")[0] for name in names}
    assert {f"{folder}/_SUCCESS" for folder in folders} <= set(names)
    assert len(lines) > 100
    assert done["repeated"] > 0
