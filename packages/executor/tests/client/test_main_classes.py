from __future__ import annotations

import subprocess
import sys

from beam_runner_worker.main_classes import decode_classes

SCRIPT = """
import sys
import threading
from argparse import Namespace
from beam_spark_executor.client.main_classes import pickle_main_classes

HUGE = b"x" * (1 << 21)
LOCK = threading.Lock()

class Plain:
    class Inner:
        pass

class Large:
    def told(self):
        return HUGE

class Unpicklable:
    def told(self):
        return sys._getframe, LOCK

Other = Plain
sys.stdout.buffer.write(pickle_main_classes())
"""


def told_by(script: str) -> bytes:
    command = [sys.executable, "-c", script]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=120).stdout


def test_classes_of_main_script_are_sent_if_picklable() -> None:
    assert list(decode_classes(told_by(SCRIPT))) == ["Plain"]


def test_script_without_classes_sends_no_main_classes() -> None:
    without = SCRIPT.replace("class ", "def ").replace("def Inner:", "def Inner():")
    without = without.replace("def Plain:", "def Plain():").replace("def Large:", "def Large():")
    assert told_by(without.replace("def Unpicklable:", "def Unpicklable():")) == b""


def test_main_classes_are_not_sent_if_dill_sends_main_session() -> None:
    dill = (
        "from apache_beam.internal import pickler\npickler.is_currently_cloudpickle = lambda: False"
    )
    assert told_by(dill + SCRIPT) == b""
