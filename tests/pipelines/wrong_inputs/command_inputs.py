"""Wrong command lines of ``beam-spark-jobserver``: flags, starts of a server, and commands for jobs."""

from __future__ import annotations

from .wrong_input import make_wrong_command, make_wrong_flags

_START = "--job-port=0 --without-spark=1"
_SPARK = "--job-port=0"
_OLD_JAVA = "#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n"
_READER = '[users.ann]\ntoken = "the token of ann"\nrights = ["read"]\n'

FLAGS = {
    "unknown flag": make_wrong_flags("--job-prot=1", "--job-prot", "did you mean --job-port?"),
    "port out of range": make_wrong_flags("--job-port=70000", "--job-port", "65535", "'70000'"),
    "no port": make_wrong_flags("--job-port=x", "--job-port", "'x'"),
    "no cores": make_wrong_flags("--without-spark=0", "--without-spark", "'0'"),
    "attempts that are no number": make_wrong_flags("--max-task-attempts=many", "'many'"),
    "duration without a unit": make_wrong_flags("--outage-limit=10", "90s or 1h30m", "'10'"),
    "unknown log level": make_wrong_flags("--log-level=loud", "--log-level", "'loud'", "warning"),
    "no Spark master": make_wrong_flags("--spark-master-url=sparky", "'sparky'", "spark://host"),
    "Spark Connect": make_wrong_flags("--spark-master-url=sc://host", "sc://host"),
    "Spark property without a value": make_wrong_flags("--spark-conf=spark.a", "'spark.a'"),
    "property of another system": make_wrong_flags("--spark-conf=flink.a=1", "'flink.a=1'"),
    "store of an unknown scheme": make_wrong_flags("--data-dir=s4://bucket/a", "s4://"),
    "state in a store without data": make_wrong_flags("--state-dir=s3://b/a", "--data-dir"),
    "two ways to give tokens": make_wrong_flags(
        "--users-file=/u --token-file=/t", "--users-file", "--token-file"
    ),
    "Spark and no Spark": make_wrong_flags(
        "--without-spark --spark-master-url=local", "--spark-master-url", "--without-spark"
    ),
    "an argument too many": make_wrong_flags("8099", "'8099'"),
    "endpoint without a port": make_wrong_flags("jobs --job-endpoint=host", "HOST:PORT", "'host'"),
    "no job": make_wrong_flags("cancel", "JOB"),
    "misspelt command": make_wrong_flags(
        "canel job", "'canel'", "did you mean the command cancel?"
    ),
    "unknown flag of a command": make_wrong_flags("jobs --all", "--all"),
    "no lines": make_wrong_flags("logs a --tail=0", "--tail", "1 or more"),
    "bundle that is no number": make_wrong_flags("story a b", "BUNDLE", "'b'"),
    "lines that are no number": make_wrong_flags("logs a --tail=few", "--tail", "'few'"),
    "unknown severity": make_wrong_flags("logs a --severity=loud", "--severity", "'loud'"),
}
STARTS = {
    "no Java": make_wrong_command(
        _SPARK, "JAVA_HOME is /nowhere", "install Java 17", environment={"JAVA_HOME": "/nowhere"}
    ),
    "Java 8": make_wrong_command(
        _SPARK,
        "is Java 8, which is too old",
        files={"bin/java": _OLD_JAVA},
        environment={"JAVA_HOME": "$folder"},
    ),
    "Spark master that isn't there": make_wrong_command(
        f"{_SPARK} --spark-master-url=spark://localhost:$free", "spark://localhost:$free"
    ),
    "Kubernetes that isn't there": make_wrong_command(
        f"{_SPARK} --spark-master-url=k8s://https://localhost:$free", "https://localhost:$free"
    ),
    "port in use": make_wrong_command("--job-port=$taken --without-spark=1", "$taken", "in use"),
    "address of another machine": make_wrong_command(f"{_START} --job-host=192.0.2.1", "192.0.2.1"),
    "public address without a token": make_wrong_command(
        f"{_START} --job-host=0.0.0.0", "0.0.0.0", "--allow-remote", "--token-file"
    ),
    "public address without users": make_wrong_command(
        f"{_START} --job-host=0.0.0.0 --allow-remote", "0.0.0.0", "--users-file"
    ),
    "state folder in use": make_wrong_command(
        f"{_START} --state-dir=$locked", "$locked is in use by another server"
    ),
    "state folder with other files": make_wrong_command(
        f"{_START} --state-dir=$folder", "$folder", "'main.txt'", files={"main.txt": "a"}
    ),
    "state folder that can't be written": make_wrong_command(
        f"{_START} --state-dir=/proc/foo", "/proc/foo"
    ),
    "state folder that is a file": make_wrong_command(
        f"{_START} --state-dir=$folder/main.txt", "$folder/main.txt", files={"main.txt": "a"}
    ),
    "artifacts folder that can't be created": make_wrong_command(
        f"{_START} --artifacts-dir=/dev/null/artifacts",
        "Can't use /dev/null/artifacts as artifacts folder: Not a directory",
    ),
    "port file that can't be written": make_wrong_command(
        f"{_START} --port-file=/dev/null/port", "--port-file /dev/null/port", "Not a directory"
    ),
    "token file without a token": make_wrong_command(
        f"{_START} --token-file=$folder/token", "$folder/token", files={"token": ""}
    ),
    "token file that is missing": make_wrong_command(
        f"{_START} --token-file=/nowhere/token", "/nowhere/token"
    ),
    "users file with an unknown right": make_wrong_command(
        f"{_START} --users-file=$folder/users.toml",
        "$folder/users.toml",
        "'rule'",
        files={"users.toml": _READER.replace('"read"', '"rule"')},
    ),
    "users file that isn't TOML": make_wrong_command(
        f"{_START} --users-file=$folder/users.toml",
        "$folder/users.toml",
        files={"users.toml": "users: ann"},
    ),
    "certificate that is missing": make_wrong_command(
        f"{_START} --tls-cert=/nowhere/cert --tls-key=/nowhere/key", "/nowhere/"
    ),
}
JOBS = {
    "server that isn't there": make_wrong_command(
        "jobs --job-endpoint=localhost:$free", "localhost:$free"
    ),
    "host without an address": make_wrong_command(
        "jobs --job-endpoint=no-such-host.invalid:1", "no-such-host.invalid:1"
    ),
    "server that never answers": make_wrong_command("jobs --job-endpoint=$silent", "$silent"),
    "port of another protocol": make_wrong_command("jobs --job-endpoint=$web", "$web"),
    "no token": make_wrong_command("jobs --job-endpoint=$guarded", "--token-file"),
    "unknown token": make_wrong_command(
        "jobs --job-endpoint=$guarded --token-file=$folder/token",
        "--token-file",
        files={"token": "the token of yesterday"},
    ),
    "token file of the client that is missing": make_wrong_command(
        "jobs --job-endpoint=$guarded --token-file=/nowhere/token", "/nowhere/token"
    ),
    "job that doesn't exist": make_wrong_command(
        "describe lost-job --job-endpoint=$server", "no job 'lost-job'"
    ),
    "part of the ids of two jobs": make_wrong_command(
        "cancel twin --job-endpoint=$server", "'twin' matches 2 jobs", "use an id"
    ),
    "cancellation of a job that has ended": make_wrong_command(
        "cancel $ended --job-endpoint=$server", "$ended has already ended: DONE"
    ),
    "drain of a job that has ended": make_wrong_command(
        "drain $ended --job-endpoint=$server", "$ended has already ended: DONE"
    ),
    "savepoint of a job that has ended": make_wrong_command(
        "savepoint $ended $folder/new --job-endpoint=$server", "$ended"
    ),
    "story of a bundle that doesn't exist": make_wrong_command(
        "story $running 4711 --job-endpoint=$server", "4711"
    ),
    "quarantine that is a file": make_wrong_command(
        "quarantine $folder/file", "$folder/file", files={"file": "a"}
    ),
    "savepoint in a file": make_wrong_command(
        "savepoint $running $folder/file --job-endpoint=$server",
        "$folder/file",
        files={"file": "a"},
    ),
    "return of a stream without an update": make_wrong_command(
        "update $running --back --job-endpoint=$server", "$running"
    ),
    "replay of a quarantine that is a file": make_wrong_command(
        "replay $ended $folder/file --job-endpoint=$server", "$ended", files={"file": "a"}
    ),
}
COMMANDS = {**FLAGS, **STARTS, **JOBS}
