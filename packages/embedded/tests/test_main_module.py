"""Tests that the harness finds classes of the user's script in the pickled functions that contain
these classes.
"""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
from beam_runner_worker.advice import add_error_advice

from beam_runner_embedded.main_module import MainModule

SCRIPT = """
import pickle, sys
from apache_beam.internal import cloudpickle_pickler

class Plain:
    def __init__(self, x):
        self.x = x

def made(x):
    return Plain(x)

def other(x):
    return x

parts = [cloudpickle_pickler.dumps(other), cloudpickle_pickler.dumps(made), pickle.dumps(Plain(5))]
sys.stdout.write(" ".join(part.hex() for part in parts))
"""


@pytest.fixture(scope="module")
def pickled() -> list[bytes]:
    """Returns pickled objects of another program: a function, a function that makes elements, and an element."""
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    return [bytes.fromhex(part) for part in done.stdout.split()]


def test_element_of_main_class_is_read_before_its_function_is_loaded(
    pickled: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    *functions, element = pickled
    asked = []

    def give() -> list[bytes]:
        asked.append(True)
        return functions

    main = MainModule(give)
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert not hasattr(main, "__file__")
    assert asked == []
    read = pickle.loads(element)
    assert (read.x, asked) == (5, [True])
    assert pickle.loads(pickle.dumps(read)).__class__ is main.Plain is read.__class__
    with pytest.raises(AttributeError, match="the class 'Point' isn't part of any function"):
        _ = main.Point
    assert asked == [True]


def test_missing_main_class_error_contains_advice(
    pickled: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "__main__", MainModule(lambda: [b"not a pickle"]))
    missing = pickled[-1].replace(b"Plain", b"Other")
    with pytest.raises(AttributeError) as raised:
        pickle.loads(missing)
    assert "--save_main_session" in add_error_advice(f"AttributeError: {raised.value}")


def test_error_without_missing_main_class_gets_no_advice() -> None:
    assert add_error_advice("ValueError: boom") == "ValueError: boom"


def test_main_class_sent_by_client_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = SCRIPT.replace("cloudpickle_pickler.dumps(made)", "cloudpickle_pickler._dumps(Plain)")
    told = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True, timeout=120
    ).stdout
    function, sent, element = (bytes.fromhex(part) for part in told.split())
    main = MainModule(lambda: [function], {"Plain": sent, "Broken": b"no pickle"})
    monkeypatch.setitem(sys.modules, "__main__", main)
    read = pickle.loads(element)
    assert read.x == 5
    assert read.__class__ is main.Plain
    with pytest.raises(AttributeError, match="the class 'Broken' of the pipeline's main module"):
        _ = main.Broken
