"""Tests that PostgreSQL rows are read in parallel and written back exactly once while workers are killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from free_ports import find_free_ports

if sys.platform != "linux":
    pytest.skip("looks for what is left in /proc", allow_module_level=True)
psycopg2 = pytest.importorskip("psycopg2", reason="wants the group postgresql")

ROWS = 1_000_000
SERVERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
DRIVERS = sorted(Path("/usr/share/java").glob("postgresql*.jar"))
TABLES = f"""
CREATE TABLE events AS SELECT id, (id * 7919) % 1000003 AS value FROM generate_series(1::bigint, {ROWS}) AS id;
CREATE TABLE doubled (id bigint, value bigint);
CREATE TABLE copies (value numeric NOT NULL, id bigint PRIMARY KEY);
CREATE TABLE loaded (name text PRIMARY KEY);
CREATE TABLE tenths (id bigint PRIMARY KEY, value bigint);
"""
SCRIPT = """
import glob
import os
import signal
import sys
from contextlib import closing
from typing import NamedTuple

import apache_beam as beam
import psycopg2
from apache_beam.options.pipeline_options import PipelineOptions
from beam_spark_executor import BeamSparkRunner
from beam_spark_io import ReadFromSpark, WriteToSpark
from psycopg2.extras import execute_values

class Event(NamedTuple):
    id: int
    value: int

def die_once(name):
    try:
        open(os.path.join(FOLDER, name), "x").close()
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)

def double(event):
    if event.id == 700_000:
        die_once("read")
    return Event(event.id, event.value * 2)

class Load(beam.DoFn):
    def process(self, written):
        with closing(psycopg2.connect(DSN)) as connection:
            with connection, connection.cursor() as cursor:
                cursor.execute("INSERT INTO loaded VALUES (%s) ON CONFLICT DO NOTHING", [OUT])
                if cursor.rowcount == 0:
                    open(os.path.join(FOLDER, "loaded before"), "w").close()
                    return
                for name in glob.glob(OUT + "/*.csv"):
                    with open(name) as file:
                        cursor.copy_expert("COPY doubled FROM STDIN (FORMAT csv)", file)
        die_once("load")

class Upsert(beam.DoFn):
    def setup(self):
        self.connection = psycopg2.connect(DSN)

    def start_bundle(self):
        self.rows = []

    def process(self, event):
        self.rows.append(event)

    def finish_bundle(self):
        with self.connection, self.connection.cursor() as cursor:
            execute_values(cursor, "INSERT INTO tenths VALUES %s ON CONFLICT (id) DO UPDATE SET value = EXCLUDED.value",
                self.rows, page_size=1000)
        if self.rows:
            die_once("upsert")

    def teardown(self):
        self.connection.close()

FOLDER, DSN, URL, DRIVER = sys.argv[1:]
OUT = FOLDER + "/out"

if __name__ == "__main__":
    options = PipelineOptions(["--spark_master_url=local[2]", f"--beam_spark_conf=spark.jars={DRIVER}"])
    source = {"url": URL, "driver": "org.postgresql.Driver", "dbtable": "events", "fetchsize": 10_000,
        "partitionColumn": "id", "lowerBound": 1, "upperBound": 1_000_000, "numPartitions": 8}
    with beam.Pipeline(BeamSparkRunner(), options) as pipeline:
        doubled = pipeline | ReadFromSpark("jdbc", options=source, schema=Event) | beam.Map(double).with_output_types(Event)
        _ = doubled | WriteToSpark("csv", OUT) | beam.ParDo(Load())
        target = {"url": URL, "driver": "org.postgresql.Driver", "dbtable": "public.copies"}
        _ = doubled | "Copy" >> WriteToSpark("jdbc", mode="append", options=target) | beam.Map(lambda _: die_once("copied"))
        _ = (doubled | beam.Filter(lambda event: event.id % 10 == 0)
            | beam.Reshuffle() | beam.ParDo(Upsert()))
"""


@pytest.fixture
def port() -> Iterator[int]:
    """Yields the port of a PostgreSQL server without authentication and without persistence."""
    if not SERVERS or not DRIVERS:
        pytest.skip("apt-get install postgresql libpostgresql-jdbc-java")
    (number,) = find_free_ports(1)
    folder = tempfile.mkdtemp(prefix="postgresql-")
    person: dict[str, Any] = {"cwd": folder}
    if os.geteuid() == 0:  # who may not run it
        shutil.chown(folder, "postgres", "postgres")
        person |= {"user": "postgres", "group": "postgres", "extra_groups": ()}
    data = ("-D", f"{folder}/data")
    create = (SERVERS[-1] / "initdb", "--auth=trust", "--username=postgres", "--no-sync", *data)
    subprocess.run(create, check=True, **person)
    settings = ("-c", "listen_addresses=127.0.0.1", "-c", "fsync=off")
    command = (SERVERS[-1] / "postgres", *data, "-k", folder, "-p", str(number), *settings)
    server = subprocess.Popen(command, **person)
    try:
        _wait_until_it_answers(number, server)
        yield number
    finally:
        server.send_signal(signal.SIGINT)  # it waits for its clients otherwise
        server.wait(60)
        shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_postgresql_rows_are_written_exactly_once(program: Any, port: int) -> None:
    _ask(port, TABLES)
    program.write("main.py", SCRIPT)
    url = f"jdbc:postgresql://127.0.0.1:{port}/postgres?user=postgres"
    driver = str(DRIVERS[-1])
    code, told = program.run("main.py", str(program.folder), _dsn(port), url, driver, seconds=800)
    assert code == 0, told
    died = {
        name for name in ("read", "load", "upsert", "copied") if (program.folder / name).exists()
    }
    assert died == {"read", "load", "upsert", "copied"}
    assert (program.folder / "loaded before").exists(), "it was loaded once, and not once more"
    expected = "SELECT count(*), sum(value) * 2, count(DISTINCT id) FROM events"
    found = "SELECT count(*), sum(value), count(DISTINCT id) FROM"
    assert _ask(port, f"{found} doubled") == _ask(port, expected)
    assert _ask(port, f"{found} copies") == _ask(port, expected)
    assert _ask(port, "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'beam_staging_%'") == [0]
    assert _ask(port, f"{found} tenths") == _ask(port, f"{expected} WHERE id % 10 = 0")


def _dsn(port: int) -> str:
    return f"host=127.0.0.1 port={port} user=postgres dbname=postgres"


def _ask(port: int, text: str) -> list[int]:
    """Runs statements, and returns the numbers in the first row of the last statement."""
    with closing(psycopg2.connect(_dsn(port))) as connection, connection, connection.cursor() as at:
        at.execute(text)
        return [int(number) for number in at.fetchone()] if at.description else []


def _wait_until_it_answers(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            _ask(port, "SELECT 1")
            return
        except psycopg2.OperationalError:
            assert server.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
