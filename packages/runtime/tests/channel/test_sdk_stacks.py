from __future__ import annotations

import threading

from apache_beam.runners.worker.worker_status import thread_dump
from beam_runner_worker.fnapi.status import SdkStatus

from beam_runner_runtime.channel.sdk_stacks import parse_harness_stacks

GO = """goroutine 7 [running]:
runtime/pprof.writeGoroutineStacks({0x1, 0x2})
\t/usr/local/go/src/runtime/pprof/pprof.go:703 +0x6b

goroutine 42 [sleep, 2 minutes]:
time.Sleep(0x12a05f200)
\t/usr/local/go/src/runtime/time.go:300 +0xf2
main.(*slowFn).ProcessElement(...)
\t/home/me/pipeline/main.go:31
created by main.run in goroutine 1
\t/home/me/pipeline/main.go:12 +0x25
"""


def test_parsed_stacks_of_python_sdk_have_frames() -> None:
    waiting = threading.Event()

    def blocks_here() -> None:
        waiting.wait(30)

    threads = [threading.Thread(target=blocks_here, name=f"worker {n}") for n in range(2)]
    for thread in threads:
        thread.start()
    try:
        found = parse_harness_stacks([SdkStatus("env", 17, thread_dump())])
    finally:
        waiting.set()
    (stack,) = [one for one in found if any(f.function == "blocks_here" for f in one.frames)]
    assert (stack.pid, stack.sdk) == (17, "env")
    assert stack.thread in ("worker 0 and 1 more", "worker 0")
    (frame,) = [one for one in stack.frames if one.function == "blocks_here"]
    assert (frame.file, frame.code) == (__file__, "waiting.wait(30)")
    assert stack.frames[-1].function == "wait"


def test_parsed_stacks_of_goroutines_have_frames() -> None:
    _, stack = parse_harness_stacks([SdkStatus("go", None, GO)])
    assert (stack.thread, stack.pid) == ("goroutine 42, sleep, 2 minutes", 0)
    assert [one.function for one in stack.frames] == [
        "main.run in goroutine 1",
        "main.(*slowFn).ProcessElement",
        "time.Sleep",
    ]
    assert (stack.frames[1].file, stack.frames[1].line) == ("/home/me/pipeline/main.go", 31)


def test_parsed_text_without_stacks_has_no_threads() -> None:
    assert parse_harness_stacks([SdkStatus("java", 1, "all is well\n    here")]) == ()
