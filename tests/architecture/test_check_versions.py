"""Tests that the version check finds missing names and wrong calls in sources without an import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.check_versions import VersionSources
from tools.used_names import find_uses_in_folder

BEAM = {
    "apache_beam/__init__.py": "from apache_beam.core import *\n",
    "apache_beam/core.py": (
        "class Base:\n"
        "  def __init__(self, a, b=1, *, c): pass\n"
        "  @staticmethod\n"
        "  def make(x): pass\n"
        "class Derived(Base):\n"
        "  kind = 1\n"
        "def run(pipeline, wait=True): pass\n"
        "try:\n"
        "  import fast\n"
        "except ImportError:\n"
        "  fast = None\n"
    ),
    "apache_beam/api/__init__.py": "from apache_beam.api import v1\nfn_pb2 = v1.fn_pb2\n",
    "apache_beam/api/v1/__init__.py": "",
    "apache_beam/api/v1/fn_pb2.py": r"_d = b'\n\x14\x41nswer\x12\x05Other'",
    "apache_beam/compiled/__init__.py": "",
    "apache_beam/compiled/quick.so": "",
}


def complaints(tmp_path: Path, code: str, **more: str) -> list[str]:
    """Returns the problems of one of our modules."""
    folder = tmp_path / "one" / "src" / "ours"
    folder.mkdir(parents=True)
    for name, text in {"module": code, **more}.items():
        (folder / f"{name}.py").write_text(text)
    version = VersionSources(
        "2.0", BEAM.get, lambda p: any(name.startswith((f"{p}/", f"{p}.")) for name in BEAM)
    )
    uses = find_uses_in_folder(tmp_path, frozenset({"apache_beam"}))
    return sorted({said for use in uses if (said := version.find_problem(use)) is not None})


@pytest.mark.parametrize(
    "code",
    [
        "import apache_beam as beam\nbeam.run(1)\nbeam.run(1, wait=False)\nbeam.Derived(1, c=2)",
        "from apache_beam import core\ncore.fast.anything()\ncore.Base.make(1)\ncore.Derived.kind",
        "from apache_beam.api import fn_pb2\nfn_pb2.Answer(a=1)\nfn_pb2.Other",
        "from apache_beam.compiled import quick\nquick.anything()",
        "import apache_beam as beam\ndef f(beam):\n  return beam.nothing()",
        "from apache_beam.core import Base\nclass Ours(Base):\n  def __init__(self):\n    super().__init__(1, c=3)",
        "import apache_beam as beam\nbeam.run(*[])\nbeam.Base(1, **{})",
        "import contextlib\nwith contextlib.suppress(ImportError):\n  from apache_beam import new\n  new()",
    ],
)
def test_version_check_accepts_names_present_in_each_version(tmp_path: Path, code: str) -> None:
    assert complaints(tmp_path, code) == []


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("from apache_beam.core import nothing", "no nothing in apache_beam.core"),
        ("import apache_beam as beam\nbeam.nothing", "no nothing in apache_beam"),
        ("import apache_beam.gone", "no gone in apache_beam"),
        ("with suppress(KeyError):\n  import apache_beam.gone", "no gone in apache_beam"),
        ("from apache_beam.api import fn_pb2\nfn_pb2.Lost()", "no Lost in"),
        ("from apache_beam import Derived\nDerived.sort", "no sort in apache_beam.core.Derived"),
        (
            "import apache_beam as beam\nbeam.run(1, 2, 3)",
            "takes 2 positional arguments, is given 3",
        ),
        ("import apache_beam as beam\nbeam.run(1, until=2)", "does not take until"),
        ("import apache_beam as beam\nbeam.Derived(1)", "is not given c"),
        ("import apache_beam as beam\nbeam.Base.make()", "is not given x"),
        (
            "from apache_beam.core import Base\nclass Ours(Base):\n  def __init__(self):\n    super().__init__(c=3)",
            "is not given a",
        ),
    ],
)
def test_version_check_reports_names_missing_in_a_version(
    tmp_path: Path, code: str, said: str
) -> None:
    (found,) = complaints(tmp_path, code)
    assert said in found


def test_version_check_follows_reexports_of_local_modules_to_beam(tmp_path: Path) -> None:
    (found,) = complaints(
        tmp_path,
        "from ours._protos import fn_pb2\nfn_pb2.Lost()",
        _protos="from apache_beam.api import fn_pb2\n",
    )
    assert "no Lost in" in found
