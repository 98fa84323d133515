"""Tests of the stacks of this process."""

from __future__ import annotations

import threading

from beam_runner_runtime.channel import stacks


def test_stacks_of_process_contain_waiting_thread_with_its_line() -> None:
    go = threading.Event()

    def wait_for_it() -> None:
        go.wait(60)  # the thread waits in this line

    thread = threading.Thread(target=wait_for_it, name="the-one", daemon=True)
    thread.start()
    try:
        found = {stack.thread: stack for stack in stacks.list_thread_stacks()}
    finally:
        go.set()
        thread.join()
    frames = [frame for frame in found["the-one"].frames if frame.function == "wait_for_it"]
    assert frames[0].code == "go.wait(60)  # the thread waits in this line"
    assert threading.current_thread().name not in found
