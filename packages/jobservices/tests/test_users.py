"""Tests of the file of users: its format, and its changes while the server runs."""

from __future__ import annotations

import hashlib
import json
import logging

import pytest

from beam_runner_jobservices.errors import JobServicesError
from beam_runner_jobservices.users import Quota, Right, parse_users
from beam_runner_jobservices.users_file import UsersFile

ANN, BOB = "a" * 32, "b" * 32
HASH = hashlib.sha256(BOB.encode()).hexdigest()
BOTH = f"""
[users.ann]
token = "{ANN}"
rights = ["submit", "read"]

[users."bob@example.com"]
token_sha256 = "{HASH}"
rights = ["read", "cancel"]
"""


KNOWN = f'token = "{ANN}"\nrights = ["read"]'


def one_user(line, rights='rights = ["read"]'):
    return f"[users.ann]\n{line}\n{rights}\n"


def test_users_file_finds_users_by_token_or_token_hash(tmp_path):
    (tmp_path / "users.toml").write_text(BOTH)
    users = UsersFile(tmp_path / "users.toml")
    ann, bob = users.find_user(ANN), users.find_user(BOB)
    assert (ann.name, ann.rights) == ("ann", {Right.SUBMIT, Right.READ})
    assert (bob.name, bob.rights) == ("bob@example.com", {Right.READ, Right.CANCEL})
    for unknown in ("", ANN[:-1], HASH, "é"):
        assert users.find_user(unknown) is None


def test_token_of_server_programs_has_all_rights_and_no_user_name(tmp_path):
    (tmp_path / "users.toml").write_text(BOTH)
    users = UsersFile(tmp_path / "users.toml")
    own = users.find_user(users.local_token)
    assert (own.name, own.rights) == ("", frozenset(Right))


def test_users_file_in_json_has_the_same_content(tmp_path):
    value = {"users": {"ann": {"token": ANN, "rights": ["read"]}}}
    (user,) = parse_users(tmp_path / "users.json", json.dumps(value).encode())
    assert (user.name, user.rights) == ("ann", {Right.READ})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("[users", "isn't valid TOML"),
        ("", "one table `users`"),
        ("[users]", "one table `users`"),
        ("users = 3", "one table `users`"),
        (f"{BOTH}\n[groups.x]\n", "one table `users`"),
        ("[users]\nann = 3", "'ann': expected a table"),
        (one_user(f'tokn = "{ANN}"'), "'ann': unknown key 'tokn'"),
        (one_user(""), "'ann': set either `token` or `token_sha256`"),
        (one_user(f'token = "{ANN}"\ntoken_sha256 = "{HASH}"'), "'ann': set either"),
        (one_user('token = "short"'), "'ann': `token` must have 16"),
        (one_user(f'token = "{ANN}é"'), "'ann': `token` must have 16"),
        (one_user("token = 1234567890123456"), "'ann': `token` must have 16"),
        (one_user(f'token_sha256 = "{ANN}"'), "'ann': `token_sha256` must have 64"),
        (one_user(f'token_sha256 = "{"z" * 64}"'), "'ann': `token_sha256` must have 64"),
        (one_user(f'token = "{ANN}"', ""), "'ann': `rights` must be a list"),
        (one_user(f'token = "{ANN}"', "rights = []"), "'ann': `rights` must be a list"),
        (one_user(f'token = "{ANN}"', 'rights = "read"'), "'ann': `rights` must be a list"),
        (one_user(f'token = "{ANN}"', 'rights = ["reed"]'), "'ann': unknown right 'reed'"),
        (one_user(f'token = "{ANN}"', "rights = [[]]"), "'ann': unknown right"),
        (one_user("running_jobs = 0", KNOWN), "'ann': `running_jobs` must be"),
        (one_user("running_jobs = true", KNOWN), "'ann': `running_jobs` must be"),
        (one_user("running_jobs = 1.5", KNOWN), "'ann': `running_jobs` must be"),
        (one_user("running_jobs = 1\nwaiting_jobs = -1", KNOWN), "'ann': `waiting_jobs` must be"),
        (one_user("waiting_jobs = 1", KNOWN), "'ann': `waiting_jobs` needs `running_jobs`"),
        (one_user("cores = 0", KNOWN), "'ann': `cores` must be"),
        (one_user("cores = 2\nrunning_jobs = 3", KNOWN), "'ann': `running_jobs` must not exceed"),
        (one_user('jobs = "some"', KNOWN), "'ann': `jobs` must be 'own' or 'all'"),
        (BOTH.replace(HASH, hashlib.sha256(ANN.encode()).hexdigest()), "have the same token"),
        (BOTH.replace("users.ann", 'users.""'), "expected a name"),
        (BOTH.replace("users.ann", r'users."a\nb"'), "expected a name"),
    ],
)
def test_wrong_users_file_raises_one_sentence_without_tokens(tmp_path, content, expected):
    with pytest.raises(JobServicesError) as refused:
        parse_users(tmp_path / "users.toml", content.encode())
    text = str(refused.value)
    assert str(tmp_path / "users.toml") in text
    assert expected in text
    assert "\n" not in text
    for secret in (ANN, BOB, HASH):
        assert secret not in text


def test_users_file_that_is_not_utf8_raises_error_without_its_content(tmp_path):
    with pytest.raises(JobServicesError, match="isn't valid TOML: it isn't UTF-8") as refused:
        parse_users(tmp_path / "users.toml", f'token = "{ANN}\xff"'.encode("latin-1"))
    assert ANN not in str(refused.value)


def test_missing_users_file_is_reported_with_its_path(tmp_path):
    with pytest.raises(JobServicesError, match=f"Can't read {tmp_path}/users.toml: No such file"):
        UsersFile(tmp_path / "users.toml")


def replace_file(path, content):
    new = path.with_suffix(".new")
    new.write_text(content)
    new.replace(path)


def test_changed_users_file_applies_to_the_next_call(tmp_path):
    path = tmp_path / "users.toml"
    path.write_text(BOTH)
    users = UsersFile(path)
    replace_file(path, BOTH.replace('"submit", "read"', '"cancel"').replace(HASH, "0" * 64))
    assert users.find_user(ANN).rights == {Right.CANCEL}
    assert users.find_user(BOB) is None


@pytest.mark.parametrize("broken", ["[users", None])
def test_invalid_users_file_keeps_previous_users_and_warns_once(tmp_path, caplog, broken):
    path = tmp_path / "users.toml"
    path.write_text(BOTH)
    users = UsersFile(path)
    if broken is None:
        path.unlink()
    else:
        replace_file(path, broken)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert users.find_user(ANN).name == "ann"
    (record,) = caplog.records
    assert str(path) in record.getMessage()
    replace_file(path, one_user(f'token = "{ANN}"'))
    assert users.find_user(ANN).rights == {Right.READ}


def test_users_file_contains_quotas(tmp_path):
    path = tmp_path / "users.toml"
    path.write_text(one_user("running_jobs = 2\nwaiting_jobs = 0", KNOWN))
    users = UsersFile(path)
    assert users.find_quota("ann") == Quota(2, 0)
    assert users.find_quota("") == Quota()
    # The jobs of a removed user run one after another.
    assert users.find_quota("removed") == Quota(1)
