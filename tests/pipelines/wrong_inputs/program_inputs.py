"""Wrong pipelines, options of pipelines, and user code that raises."""

from __future__ import annotations

from .wrong_input import make_failing_program, make_refused_program

_NOTHING = "numbers | beam.Map(print)"
_STREAM = "p | beam.transforms.periodicsequence.PeriodicImpulse(fire_interval=60)"
_SERVER = "--job_endpoint=$server"
_MINE = 'numbers | "Mine" >> '

OPTIONS = {
    "misspelt runner": make_refused_program(
        _NOTHING, f"{_SERVER} --runner=beam_spark_executor.BeamSparkRuner", "'BeamSparkRuner'"
    ),
    "endpoint without a port, in a program": make_refused_program(
        _NOTHING, "--job_endpoint=host", "'host'", "HOST:PORT"
    ),
    "server that isn't there, in a program": make_refused_program(
        _NOTHING, "--job_endpoint=localhost:$free --job_server_timeout=2", "localhost:$free"
    ),
    "server that never answers, in a program": make_refused_program(
        _NOTHING, "--job_endpoint=$silent --job_server_timeout=2", "$silent"
    ),
    "option of a server that runs": make_refused_program(
        _NOTHING, f"{_SERVER} --spark_master_url=local", "--spark_master_url", "running server"
    ),
    "program without its token": make_refused_program(_NOTHING, "--job_endpoint=$guarded", "token"),
    "abbreviated option": make_refused_program(
        _NOTHING, f"{_SERVER} --beam_spark_key_shard=4", "--beam_spark_key_shards"
    ),
    "unknown value of an option": make_refused_program(
        _NOTHING, f"{_SERVER} --beam_spark_bulk=sometimes", "'sometimes'", "--beam_spark_bulk"
    ),
    "number out of range": make_refused_program(
        _NOTHING, f"{_SERVER} --beam_spark_task_attempts=0", "'0'", "--beam_spark_task_attempts"
    ),
    "variable that isn't set": make_refused_program(
        _NOTHING, f"{_SERVER} --beam_spark_env=UNSET", "UNSET", "--beam_spark_env"
    ),
    "package that is missing": make_refused_program(
        _NOTHING, f"{_SERVER} --extra_package=/nowhere/a.tar.gz", "/nowhere/a.tar.gz"
    ),
    "package of another kind": make_refused_program(
        _NOTHING, f"{_SERVER} --extra_package=notes.txt", "notes.txt", **{"notes.txt": "a"}
    ),
    "package that isn't an archive": make_refused_program(
        _NOTHING, f"{_SERVER} --extra_package=a.tar.gz", "a.tar.gz", **{"a.tar.gz": "a"}
    ),
    "requirements that are missing": make_refused_program(
        _NOTHING, f"{_SERVER} --requirements_file=/nowhere/r.txt", "/nowhere/r.txt"
    ),
    "setup file that is missing": make_refused_program(
        _NOTHING, f"{_SERVER} --setup_file=/nowhere/setup.py", "/nowhere/setup.py"
    ),
    "setup file that raises": make_refused_program(
        _NOTHING, f"{_SERVER} --setup_file=./setup.py", "setup.py", **{"setup.py": "1/0"}
    ),
    "image without Docker": make_refused_program(
        _NOTHING,
        f"{_SERVER} --environment_type=DOCKER --environment_config=example.com/a:1",
        "'example.com/a:1'",
    ),
    "harness that doesn't exist": make_refused_program(
        _NOTHING,
        f"{_SERVER} --environment_type=PROCESS --environment_options=process_command=/no/boot",
        "/no/boot",
    ),
    "worker pool that isn't there": make_refused_program(
        _NOTHING,
        f"{_SERVER} --environment_type=EXTERNAL --environment_config=localhost:$free",
        "localhost:$free",
    ),
    "update of a job that doesn't run": make_refused_program(
        _NOTHING, f"{_SERVER} --update --job_name=lost --streaming", "'lost'"
    ),
    "mapping of an unknown step": make_refused_program(
        _STREAM,
        f'{_SERVER} --update --job_name=running --streaming --transform_name_mapping=\'{{"Old": "New"}}\'',
        "'Old'",
        "transform_name_mapping",
    ),
    "savepoint that doesn't exist": make_refused_program(
        _NOTHING, f"{_SERVER} --streaming --beam_spark_from_savepoint=/nowhere/s", "/nowhere/s"
    ),
    "quarantine in a batch job": make_refused_program(
        _NOTHING, f"{_SERVER} --beam_spark_quarantine=/nowhere/q", "--beam_spark_quarantine"
    ),
    "function that can't be pickled": make_refused_program(
        f"{_MINE}beam.ParDo(Unpicklable())", _SERVER, "Unpicklable", "no pickle of it"
    ),
    "input that is missing": make_refused_program(
        "p | beam.io.ReadFromText('/nowhere/a.txt')", _SERVER, "/nowhere/a.txt"
    ),
    "read of an unknown file system": make_refused_program(
        "p | beam.io.ReadFromText('s4://bucket/a')", _SERVER, "s4://"
    ),
}
CODE = {
    **{
        f"exception in {method}": make_failing_program(
            f"{_MINE}beam.ParDo(FailIn({method!r}))", f"ValueError: no {method}", "'Mine'"
        )
        for method in ("setup", "start_bundle", "process", "finish_bundle")
    },
    **{
        f"{error} in user code": make_failing_program(
            f"{_MINE}beam.Map(lambda n: raise_error({error}('no')))", error, "'Mine'"
        )
        for error in ("KeyboardInterrupt", "SystemExit", "StopIteration", "MemoryError")
    },
    "exit of the process": make_failing_program(
        f"{_MINE}beam.Map(lambda n: os._exit(3))", "Mine", "worker process"
    ),
    "kill of the process": make_failing_program(
        f"{_MINE}beam.Map(lambda n: os.kill(os.getpid(), signal.SIGKILL))", "Mine", "worker process"
    ),
    "import of a missing module": make_failing_program(
        f"{_MINE}beam.Map(lambda n: __import__('lost_module'))", "lost_module", "'Mine'"
    ),
    "element of another type than its coder's": make_failing_program(
        f"{_MINE}beam.Map(lambda n: n).with_output_types(bytes) | beam.Reshuffle()", "'Mine'"
    ),
    "elements that aren't pairs": make_failing_program(
        f"{_MINE}beam.Map(lambda n: n).with_output_types(Tuple[int, int]) | beam.GroupByKey()",
        "'Mine'",
    ),
    "result that can't be iterated": make_failing_program(
        f"{_MINE}beam.FlatMap(lambda n: n)", "not iterable", "'Mine'"
    ),
    "side input with two values": make_failing_program(
        f"{_MINE}beam.Map(lambda n, one: n, beam.pvalue.AsSingleton(numbers))", "Mine"
    ),
    "output folder that can't be written": make_failing_program(
        "numbers | 'Mine' >> beam.io.WriteToText('/proc/nowhere/a')", "/proc/nowhere", "Mine"
    ),
    "timestamp out of range": make_failing_program(
        f"{_MINE}beam.Map(lambda n: beam.window.TimestampedValue(n, 1e300))", "'Mine'"
    ),
    "combine function that raises": make_failing_program(
        f"{_MINE}beam.CombineGlobally(lambda values: 1 / 0)", "ZeroDivisionError", "Mine"
    ),
    "text that can't be encoded": make_failing_program(
        f"{_MINE}beam.Map(lambda n: raise_error(ValueError(chr(0xD800))))", "'Mine'"
    ),
}
PROGRAMS = {**OPTIONS, **CODE}
