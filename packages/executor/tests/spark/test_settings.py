from __future__ import annotations

import os
from pathlib import Path

import pytest
from beam_runner_runtime.tuning import TUNING

from beam_spark_executor.spark.settings import (
    DEFAULT_MASTER,
    SparkSettings,
    SparkUnavailable,
    add_task_slots,
    check_master,
    compute_driver_heap_size,
    count_slots_of_master,
    is_on_this_machine,
    make_default_properties,
    make_java_options,
    make_session_properties,
)

FOLDER = Path("/tmp/folder")


def refusal(master: str) -> str:
    try:
        check_master(master)
    except SparkUnavailable as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[2]",
        "local[*]",
        "local[*,4]",
        "local[2, 4]",
        "local-cluster[2,1,1024]",
        "spark://one:7077",
        "spark://one:7077,two:7077",
        "yarn",
        "k8s://https://host:443",
    ],
)
def test_valid_spark_master_urls_are_accepted(master: str) -> None:
    assert refusal(master) == ""


@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("loca[2]", "is not a Spark master URL; expected local"),
        ("local[]", "expected"),
        ("spark://one", "spark://host:port"),
        ("", "expected"),
        ("sc://host:15002", "Spark Connect"),
    ],
)
def test_wrong_spark_master_urls_are_refused(master: str, said: str) -> None:
    with pytest.raises(SparkUnavailable, match=said):
        check_master(master)


def test_default_spark_master_is_used_without_setting() -> None:
    submitted = {"spark.master": "local[*]", "spark.app.name": "pyspark-shell"}
    conf = make_session_properties(submitted, SparkSettings(), FOLDER)
    assert conf["spark.master"] == add_task_slots(DEFAULT_MASTER)[0]
    assert conf["spark.app.name"] == "beam-spark-jobserver"


def test_spark_environment_names_master() -> None:
    conf = make_session_properties({"spark.master": "yarn"}, SparkSettings(), FOLDER)
    assert conf["spark.master"] == "yarn"
    assert "spark.driver.bindAddress" not in conf


def test_spark_web_pages_are_disabled_only_if_spark_runs_on_this_machine() -> None:
    def read(master: str) -> str | None:
        return make_session_properties({}, SparkSettings(master=master), FOLDER).get(
            "spark.ui.enabled"
        )

    assert (read("local[2]"), read("local-cluster[1,1,1024]")) == ("false", "false")
    assert (read("yarn"), read("spark://host:7077")) == (None, None)


def test_spark_settings_of_user_override_environment_and_defaults() -> None:
    settings = SparkSettings(master="local[3]", conf={"spark.ui.enabled": "true"})
    conf = make_session_properties(
        {"spark.master": "yarn", "spark.ui.enabled": "false"}, settings, FOLDER
    )
    assert conf["spark.master"] == f"local[{3 * TUNING.slots_per_core},1]"
    assert conf["spark.default.parallelism"] == "3"
    assert conf["spark.ui.enabled"] == "true"


def test_spark_settings_of_environment_override_defaults() -> None:
    conf = make_session_properties({"spark.sql.adaptive.enabled": "true"}, SparkSettings(), FOLDER)
    assert conf["spark.sql.adaptive.enabled"] == "true"


GB = 1 << 30


@pytest.mark.parametrize(
    ("stated", "memory"),
    [
        ({}, None),
        ({"spark.executor.memory": "8g"}, None),
        ({"spark.executor.memoryOverhead": "2g"}, 3 * GB),
        ({"spark.executor.memory": "8G", "spark.executor.memoryOverhead": "2048"}, 10 * GB),
        ({"spark.executor.pyspark.memory": "1gb"}, 2 * GB + (384 << 20)),
        ({"spark.master": "yarn"}, GB + (384 << 20)),
        ({"spark.master": "yarn", "spark.executor.memory": "10g"}, 11 * GB),
        ({"spark.master": "yarn", "spark.executor.memory": "much"}, None),
        ({"spark.executorEnv.BEAM_RUNNER_MEMORY": "5", "spark.executor.memoryOverhead": "2g"}, 5),
        ({"spark.master": "local[2]", "spark.executor.memoryOverhead": "2g"}, None),
    ],
)
def test_executor_python_gets_memory_outside_heap(
    stated: dict[str, str], memory: int | None
) -> None:
    """YARN kills executors that use more memory, if no control group limits them."""
    conf = make_session_properties(
        {"spark.master": "spark://one:7077", **stated}, SparkSettings(), FOLDER
    )
    found = conf.get("spark.executorEnv.BEAM_RUNNER_MEMORY")
    assert found == (None if memory is None else str(memory))


def test_wrong_master_in_environment_is_reported() -> None:
    with pytest.raises(SparkUnavailable, match="mesos"):
        make_session_properties({"spark.master": "mesos://host:5050"}, SparkSettings(), FOLDER)


def test_local_spark_master_runs_executors_only_on_same_machine() -> None:
    assert is_on_this_machine("local-cluster[2,1,1024]")
    assert make_default_properties("local[2]", FOLDER)["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in make_default_properties("spark://one:7077", FOLDER)


@pytest.mark.parametrize(
    ("stated", "place"),
    [
        ({}, str(FOLDER / "warehouse")),
        ({"spark.sql.catalogImplementation": "in-memory"}, str(FOLDER / "warehouse")),
        ({"spark.sql.catalogImplementation": "hive"}, None),
        ({"spark.sql.warehouse.dir": "/mine"}, "/mine"),
    ],
)
def test_spark_warehouse_folder_is_temporary_only_with_temporary_catalog(
    stated: dict[str, str], place: str | None
) -> None:
    for found, settings in (
        (stated, SparkSettings("local[2]")),
        ({}, SparkSettings("local[2]", stated)),
    ):
        assert (
            make_session_properties(found, settings, FOLDER).get("spark.sql.warehouse.dir") == place
        )


def test_long_temporary_paths_disable_unix_sockets_of_spark() -> None:
    key = "spark.python.unix.domain.socket.enabled"
    assert make_default_properties("local[2]", FOLDER)[key] == "true"
    assert make_default_properties("local[2]", Path("/" + "long" * 20))[key] == "false"
    assert make_default_properties("yarn", FOLDER)[key] == "false"


def test_java_options_of_runner_yield_to_user_options() -> None:
    assert "+UseSerialGC" in make_java_options(FOLDER, FOLDER / "log", "warn", "")
    assert "+UseSerialGC" not in make_java_options(FOLDER, FOLDER / "log", "warn", "-XX:+UseG1GC")
    assert "Tier4InvocationThreshold" in make_java_options(FOLDER, FOLDER / "log", "warn", "")
    for theirs in ("-XX:TieredStopAtLevel=1", "-XX:-TieredCompilation", "-XX:Tier4LoadFeedback=2"):
        assert "Tier4" not in make_java_options(FOLDER, FOLDER / "log", "warn", theirs)


@pytest.mark.parametrize(
    ("master", "cores", "attempts"),
    [
        ("local", 1, 1),
        ("local[2]", 2, 1),
        ("local[3,4]", 3, 4),
        ("local[2, 4]", 2, 4),
        ("local[*]", os.cpu_count(), 1),
        ("local[*,4]", os.cpu_count(), 4),
    ],
)
def test_local_spark_master_has_more_slots_than_cores(
    master: str, cores: int, attempts: int
) -> None:
    assert add_task_slots(master) == (f"local[{cores * TUNING.slots_per_core},{attempts}]", cores)
    conf = make_session_properties({}, SparkSettings(master=master), FOLDER)
    assert conf["spark.default.parallelism"] == str(cores)
    assert count_slots_of_master(conf["spark.master"]) == cores * TUNING.slots_per_core


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "yarn", "spark://one:7077"])
def test_number_of_task_slots_of_cluster_master_is_unknown(master: str) -> None:
    assert add_task_slots(master) == (master, None)
    conf = make_session_properties({}, SparkSettings(master=master), FOLDER)
    assert conf["spark.master"] == master
    assert count_slots_of_master(master) is None
    assert "spark.default.parallelism" not in conf


def test_spark_default_parallelism_can_be_set_by_user() -> None:
    settings = SparkSettings(master="local[3]", conf={"spark.default.parallelism": "7"})
    assert make_session_properties({}, settings, FOLDER)["spark.default.parallelism"] == "7"


@pytest.mark.parametrize(
    ("cores", "gigabytes", "heap"),
    [(2, 1, "512m"), (2, 3, "768m"), (2, 24, "1024m"), (8, 64, "4096m")],
)
def test_spark_heap_size_depends_on_cores_and_memory(cores: int, gigabytes: int, heap: str) -> None:
    assert compute_driver_heap_size(cores, gigabytes << 30) == heap
