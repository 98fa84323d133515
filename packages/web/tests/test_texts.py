from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_web import texts
from beam_runner_web.watch.masking import MASK, shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0, "0"),
        (9_999, "9,999"),
        (12_345, "12.3 k"),
        (1_234_567, "1.23 M"),
        (0.5, "0.5"),
    ],
)
def test_numbers_are_formatted(value: float | None, shown: str) -> None:
    assert texts.number(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (0.01, "< 0.1 s"),
        (12.4, "12 s"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (90_000, "1 d 1 h"),
        (None, "–"),
    ],
)
def test_durations_are_formatted(seconds: float | None, shown: str) -> None:
    assert texts.duration(seconds) == shown


def test_watermarks_at_ends_of_time_are_words() -> None:
    assert texts.watermark(-9_223_372_036_854_775, 0) == "start"
    assert texts.watermark(9_223_372_036_854_775, 0) == "end"
    assert texts.watermark(9_223_371_950_454_775, 0) == "end"
    assert texts.watermark(1_000_000, 1_012) == "12 s behind"


@given(st.text())
def test_harmless_text_is_unchanged(text: str) -> None:
    found = texts.harmless(text)
    assert not any(ord(c) < 32 and c not in "\n\t" for c in found)
    assert not set(found) & set("\x1b\x7f\u202e\u2066\u200f")
    found.encode("utf-8")


def test_long_text_is_truncated_with_mark() -> None:
    found = texts.harmless("x" * 1_000_000)
    assert len(found) < 5_000 and "more characters" in found


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("password", "x", MASK),
        ("AWS_SECRET", "x", MASK),
        ("api_key", "x", MASK),
        ("keyring", "x", "x"),
        ("experiments", ["a=1", "auth_token=x"], ["a=1", f"auth_token={MASK}"]),
        ("nested", {"credentials": "x", "b": 1}, {"credentials": MASK, "b": 1}),
        ("url", "jdbc://me:pw@host/db", f"jdbc://{MASK}@host/db"),
        (
            "url",
            "jdbc:pg://h/d?user=u&password=pw&ssl=1",
            f"jdbc:pg://h/d?user=u&password={MASK}&ssl=1",
        ),
        ("url", "https://store/x?se=1&sig=a%2Fb", f"https://store/x?se=1&sig={MASK}"),
        ("azure_connection_string", "AccountName=n;AccountKey=k", MASK),
        ("other", "AccountName=n;AccountKey=k==;X=y", f"AccountName=n;AccountKey={MASK};X=y"),
        ("conf", '{"user": "u", "password": "pw"}', f'{{"user": "u", "password": "{MASK}"}}'),
        ("lists", [["token=x"], {"pwd": "x"}], [[f"token={MASK}"], {"pwd": MASK}]),
        ("text", "no secretary is a secret", "no secretary is a secret"),
    ],
)
def test_secrets_are_masked(name: str, value: object, expected: object) -> None:
    assert shown({f"beam:option:{name}:v1": value}) == [(name, expected)]


@pytest.mark.parametrize("piece", ["password", "://a:", "token_", "sig=", "secret: "])
def test_secret_search_time_grows_with_text_length(piece: str) -> None:
    began = time.thread_time()
    shown({"text": piece * 100_000})
    assert time.thread_time() - began < 2
