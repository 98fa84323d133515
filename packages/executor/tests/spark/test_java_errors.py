from __future__ import annotations

import pytest

from beam_spark_executor.spark.java_errors import find_start_error

_END = [
    "Error: Could not create the Java Virtual Machine.",
    "Error: A fatal exception has occurred. Program will exit.",
]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["Invalid maximum heap size: -Xmxlots", *_END], "Invalid maximum heap size: -Xmxlots"),
        (
            ["Picked up JAVA_TOOL_OPTIONS: -Xno", "Unrecognized option: -Xno", *_END],
            "Unrecognized option: -Xno",
        ),
        (
            ["Error occurred during initialization of VM", "Too small maximum heap"],
            "Too small maximum heap",
        ),
        (
            ['Exception in thread "main" java.lang.OutOfMemoryError: Java heap space', "\tat a.B"],
            'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space',
        ),
        (["WARN something", "Error: Unknown option"], "Error: Unknown option"),
        (["/x/java: cannot execute"], "/x/java: cannot execute"),
        (_END, _END[0]),
        ([], ""),
    ],
)
def test_reason_of_failed_java_start_is_found(lines: list[str], reason: str) -> None:
    assert find_start_error(lines) == reason
