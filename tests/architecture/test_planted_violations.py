"""Tests that break every rule between the layers: the check of the rule must fail and name the module.

All violations that one command must find are planted together, each in a separate module.
"""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import attrs
import pytest

from .conftest import Repository

HEAD = '"""Planted."""\n\nfrom __future__ import annotations\n\n'
ENGINE = "packages/engine/src/beam_runner_engine/planted{}.py"
MODEL = "packages/model/src/beam_runner_model/planted{}.py"
BUNDLES = "packages/runtime/src/beam_runner_runtime/bundles/planted{}.py"
CLIENT = "packages/executor/src/beam_spark_executor/client/planted{}.py"
DATA = "packages/data/src/beam_runner_data/rows/planted{}.py"
DRIVER = "packages/driver/src/beam_runner_driver/planted{}.py"
EMBEDDED = "packages/embedded/src/beam_runner_embedded/planted{}.py"
EXECUTOR = "packages/executor/src/beam_spark_executor/planted{}.py"
JOBSERVICES = "packages/jobservices/src/beam_runner_jobservices/planted{}.py"
JOBSERVICES_WIRE = "packages/jobservices/src/beam_runner_jobservices/wire/planted{}.py"
PROCESSES = "packages/runtime/src/beam_runner_runtime/processes/planted{}.py"
PLANNER = "packages/planner/src/beam_runner_planner/planted{}.py"
RUNTIME = "packages/runtime/src/beam_runner_runtime/channel/planted{}.py"
SECTIONS = "packages/runtime/src/beam_runner_runtime/sections/planted{}.py"
SERVER = "packages/server/src/beam_runner_server/planted{}.py"
STORAGE = "packages/storage/src/beam_runner_storage/journal/planted{}.py"
URNS = "packages/urns/src/beam_runner_urns/planted{}.py"
WEB = "packages/web/src/beam_runner_web/planted{}.py"
WORKER = "packages/worker/src/beam_runner_worker/planted{}.py"
WORKER_TESTS = "packages/worker/tests/planted{}.py"


@attrs.frozen
class Plant:
    """Violation: file, source text, and expected message.

    Attributes:
        file: path, with a placeholder for a number.
        named: expected message, with a placeholder for the number if the message names the file.
    """

    file: str
    code: str
    named: str


def planted_import(file: str, code: str) -> Plant:
    """Returns an import that the package's list of allowed imports lacks."""
    package = file.split("/")[3]
    root = code.split()[1].partition(".")[0]
    return Plant(file, code, "planted{}:5: " + f"`{code}`: {package} may not import `{root}`")


def forbidden_import(file: str, imported: str, *, layer: str = "", named: str = "") -> Plant:
    """Returns an import from a higher layer.

    Args:
        layer: layer that the message names; by default the package.
        named: imported layer that the message names; by default the imported module.
    """
    message = f"{layer or file.split('/')[3]} is not allowed to import {named or imported}"
    return Plant(file, f"import {imported}", message)


LAYERS = [
    *(
        planted_import(ENGINE, code)
        for code in (
            "import grpc",
            "from google.protobuf import message",
            "import apache_beam",
            "import pyspark",
            "import pyarrow",
            "import time",
            "from time import monotonic",
            "import threading",
            "import asyncio",
            "import random",
            "import socket",
            "import logging",
            "import os",
            "import subprocess",
            "import importlib",
            "import sqlite3",
        )
    ),
    Plant(
        ENGINE,
        "def late() -> None:\n    import threading\n\n    threading.Lock()\n",
        "planted{}:7: `import threading`: beam_runner_engine may not import `threading`",
    ),
    planted_import(URNS, "import re"),
    planted_import(URNS, "from typing import Final"),
    planted_import(URNS, "import attrs"),
    forbidden_import(URNS, "beam_runner_engine"),
    forbidden_import(WORKER, "beam_runner_engine"),
    planted_import(WORKER, "from beam_runner_engine.keyed import cells"),
    planted_import(MODEL, "import socket"),
    planted_import(RUNTIME, "import beam_runner_jobservices"),
    planted_import(SERVER, "import pyspark"),
    planted_import(STORAGE, "import pyarrow"),
    planted_import(PLANNER, "import beam_runner_worker"),
    forbidden_import(ENGINE, "beam_runner_worker"),
    planted_import(JOBSERVICES, "import beam_runner_worker"),
    forbidden_import(WORKER, "beam_spark_executor"),
    forbidden_import(MODEL, "beam_runner_engine.keyed", named="beam_runner_engine"),
    forbidden_import(EMBEDDED, "beam_runner_worker.fnapi"),
    forbidden_import(
        JOBSERVICES_WIRE, "beam_runner_jobservices.registry", layer="beam_runner_jobservices.wire"
    ),
    planted_import(JOBSERVICES, "import pyspark"),
    planted_import(JOBSERVICES, "from pyspark.sql import SparkSession"),
    planted_import(WORKER, "import pyspark"),
    planted_import(WORKER, "import pyarrow"),
    planted_import(EXECUTOR, "import beam_runner_web"),
    planted_import(EXECUTOR, "import requests"),
    forbidden_import(CLIENT, "pyspark", layer="beam_spark_executor.client"),
    forbidden_import(CLIENT, "beam_runner_server", layer="beam_spark_executor.client"),
    forbidden_import(DATA, "beam_runner_driver"),
    forbidden_import(DRIVER, "beam_spark_executor.spark", named="beam_spark_executor"),
    planted_import(PROCESSES, "import pyspark"),
    Plant(
        EXECUTOR,
        "import pyspark",
        "beam_spark_executor.planted{} -> pyspark (l.5)",
    ),
    Plant(BUNDLES, "X = 1", "- beam_runner_runtime.bundles.planted{}"),
    Plant(DRIVER, "X = 1", "- beam_runner_driver.planted{}"),
    Plant(SECTIONS, "X = 1", "- beam_runner_runtime.sections.planted{}"),
    Plant(PLANNER, "X = 1", "- beam_runner_planner.planted{}"),
    Plant(JOBSERVICES, "X = 1", "- beam_runner_jobservices.planted{}"),
    Plant(WEB, "X = 1", "- beam_runner_web.planted{}"),
    planted_import(WEB, "import grpc"),
    planted_import(WEB, "import apache_beam"),
    planted_import(WEB, "from beam_runner_urns import metrics"),
    forbidden_import(WEB, "beam_spark_executor"),
]

LINT = [
    Plant(ENGINE, "import time\n\nNOW = time.time()\n", "`time` is banned"),
    Plant(ENGINE, "import threading\n\nLOCK = threading.Lock()\n", "`threading` is banned"),
    Plant(
        ENGINE,
        "import datetime\n\nNOW = datetime.datetime.now()\n",
        "`datetime.datetime.now` is banned",
    ),
    Plant(
        ENGINE,
        "from google.protobuf import struct_pb2\n\nSTRUCT = struct_pb2.Struct\n",
        "`google.protobuf` is banned",
    ),
    Plant(ENGINE, "import grpc\n\nCALL = grpc.Call\n", "`grpc` is banned"),
    Plant(
        ENGINE,
        'def read() -> str:\n    with open("x") as lines:\n        return lines.read()\n',
        "PTH123",
    ),
    Plant(ENGINE, "def tell() -> None:\n    print(1)\n", "T201"),
    Plant(
        WORKER,
        "from apache_beam.portability.api import beam_fn_api_pb2\n\nPROTO = beam_fn_api_pb2\n",
        "`apache_beam.portability.api` is banned: Protos enter in _protos.py",
    ),
    Plant(
        EXECUTOR,
        "from google.protobuf import json_format\n\nPROTO = json_format\n",
        "`google.protobuf` is banned: Protos enter in _protos.py",
    ),
    Plant(JOBSERVICES, "import pyspark\n\nSPARK = pyspark\n", "`pyspark` is banned"),
    Plant(WORKER, "import pyspark\n\nSPARK = pyspark\n", "`pyspark` is banned"),
    Plant(
        WORKER,
        "from beam_runner_engine.scheduler import Data\n\nDATA = Data\n",
        "`beam_runner_engine` is banned",
    ),
    Plant(EXECUTOR, "from pyspark import RDD\n\nROWS = RDD\n", "`pyspark.RDD` is banned"),
    Plant(WEB, "import grpc\n\nCALL = grpc.Call\n", "`grpc` is banned"),
    Plant(URNS, "import typing\n\nANY = typing.Any\n", "`typing` is banned"),
    Plant(
        WORKER,
        "def hide() -> None:\n    try:\n        hide()\n    except Exception:\n        pass\n",
        "S110",
    ),
]

SIZES = [
    Plant(WORKER, "X = 1\n" * 397, "planted{}.py: 401 lines, at most 400"),
    Plant(
        WORKER,
        "def long() -> list[int]:\n    return [\n" + "        1,\n" * 58 + "    ]\n",
        "planted{}.py:6: long has 61 lines, at most 60",
    ),
]

TESTS = [
    Plant(
        WORKER_TESTS,
        "def helper() -> int:\n    return 1\n\n\ndef test_planted() -> None:\n    helper()\n",
        "planted{}.py:10: test_planted looks at nothing",
    ),
]


def test_repository_respects_the_layers(repository: Repository) -> None:
    outcome = repository.nox("layers")
    assert outcome.passed, outcome.text


def test_repository_passes_the_purity_check(repository: Repository) -> None:
    outcome = repository.nox("lint")
    assert outcome.passed, outcome.text


def planted(pristine: Path, folder: Path, plants: list[Plant], session: str) -> str:
    """Plants violations in a copy, runs a session that must fail, and returns its output."""
    repository = Repository(shutil.copytree(pristine, folder / "copy"))
    for number, plant in enumerate(plants):
        spaced = "\n" if plant.code.startswith("def ") else ""
        repository.write(plant.file.format(number), HEAD + spaced + plant.code)
    outcome = repository.nox(session)
    shutil.rmtree(repository.root)
    assert not outcome.passed
    return outcome.text


@pytest.mark.parametrize(
    ("session", "plants"),
    [("layers", LAYERS), ("lint", SIZES), ("lint", TESTS)],
    ids=("layers", "sizes", "tests"),
)
def test_layer_check_reports_planted_violations(
    pristine: Path, tmp_path: Path, session: str, plants: list[Plant]
) -> None:
    text = planted(pristine, tmp_path, plants, session)
    named = [plant.named.format(number) for number, plant in enumerate(plants)]
    assert [words for words in named if words not in text] == [], text


def test_style_check_reports_planted_violations(pristine: Path, tmp_path: Path) -> None:
    text = planted(pristine, tmp_path, LINT, "lint")
    said = dict(re.findall(r"planted(\d+)\.py:\d+:\d+: (.*?)(?= packages/|$)", text))
    missed = [p for number, p in enumerate(LINT) if p.named not in said.get(str(number), "")]
    assert missed == [], text


def test_dependency_check_reports_an_undeclared_dependency(repository: Repository) -> None:
    repository.edit("packages/worker/pyproject.toml", '    "grpcio>=1.71",\n', "")
    repository.write(WORKER.format(0), HEAD + "import grpc\n")
    outcome = repository.nox("layers")
    assert not outcome.passed
    assert "`grpcio` is not declared in packages/worker/pyproject.toml" in outcome.text


def test_dependency_check_reports_a_forbidden_declaration(repository: Repository) -> None:
    pyproject = "packages/engine/pyproject.toml"
    repository.edit(pyproject, '"attrs>=23.2"', '"attrs>=23.2", "grpcio>=1.66"')
    outcome = repository.nox("layers")
    assert not outcome.passed
    assert "declares `grpcio`, on which beam_runner_engine may not depend" in outcome.text


@pytest.mark.parametrize(
    ("file", "package", "module"),
    [
        (ENGINE, "beam_runner_engine", "sqlite3"),
        (URNS, "beam_runner_urns", "sqlite3"),
        (MODEL, "beam_runner_model", "beam_runner_engine.scheduler"),
        pytest.param(
            *(WORKER, "beam_runner_worker", "beam_runner_engine.scheduler"),
            marks=pytest.mark.skipif(
                find_spec("apache_beam") is None, reason="the worker imports Beam"
            ),
        ),
    ],
)
def test_purity_check_reports_a_dynamic_import(
    repository: Repository, file: str, package: str, module: str
) -> None:
    sources = [str(one) for one in sorted(repository.root.glob("packages/*/src"))]
    search = (
        "import sys; package, *sources = sys.argv[1:]; sys.path[:0] = sources;"
        " from tools.check_purity import *; print('brought', *sorted(find_forbidden_modules(package)))"
    )
    assert repository.run("-c", search, package, *sources).text.endswith("brought")
    repository.write(file.format(0), f'{HEAD}__import__("{module}")\n')
    outcome = repository.run("-c", search, package, *sources)
    assert outcome.passed, outcome.text
    assert module in outcome.text
