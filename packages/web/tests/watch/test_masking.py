from __future__ import annotations

import time

import pytest

from beam_runner_web.watch.masking import MASK, list_masked_options


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
def test_pipeline_options_with_secrets_are_masked(
    name: str, value: object, expected: object
) -> None:
    assert list_masked_options({f"beam:option:{name}:v1": value}) == [(name, expected)]


@pytest.mark.parametrize("piece", ["password", "://a:", "token_", "sig=", "secret: "])
def test_secret_search_takes_linear_time(piece: str) -> None:
    began = time.thread_time()
    list_masked_options({"text": piece * 100_000})
    assert time.thread_time() - began < 2
