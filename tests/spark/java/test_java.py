"""Our Java: two compilers take it, and a JVM compiles each package once."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from examples.kafka.broker import REMEDY, connector_jars
from pyspark import java_gateway
from tests.spark.java.sources import JAVA, PACKAGES

from daybreak.spark.java import loader
from daybreak.spark.java.loader import JavaPackage, sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS = Path(pyspark.__file__).parent / "jars"
#: Janino ignores type arguments, so it needs casts that javac finds redundant. Jars of Spark name
#: others that Spark comes without.
LINT = "-Xlint:all,-cast,-path"


def javac() -> str:
    """The compiler of the JDK that Spark runs on; a JRE has none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("javac", path=f"{home}/bin") if home else shutil.which("javac")
    if found is None:
        pytest.skip("JAVA IS NOT CHECKED: no javac; apt-get install openjdk-17-jdk-headless")
    return found


def need_kafka(packages: list[str]) -> None:
    if "kafka" in packages and not connector_jars():
        pytest.skip(f"KAFKA IS NOT TESTED: its jars are missing; {REMEDY}")


@pytest.mark.slow
@pytest.mark.parametrize("packages", [[p for p in PACKAGES if p != "kafka"], ["kafka"]])
def test_javac_warns_of_nothing(tmp_path: Path, packages: list[str]) -> None:
    compiler = javac()
    need_kafka(packages)
    files = [str(JAVA / package / name) for package in packages for name in sources(package)]
    jars = os.pathsep.join([f"{JARS}/*", *map(str, connector_jars())])
    command = [compiler, LINT, "-Werror", "-proc:none", "--release", "17", "-cp", jars, "-d"]
    done = subprocess.run(
        [*command, str(tmp_path), *files], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("package", PACKAGES)
def test_each_file_is_a_class_that_the_jvm_verifies(spark: SparkSession, package: str) -> None:
    need_kafka([package])
    context: Any = spark.sparkContext
    made = JavaPackage(context._gateway, package).loader
    for name, text in sources(package).items():
        assert text.startswith(f"package daybreak.{package};\n")
        assert text.count("\n") <= 400
        assert max(map(len, text.splitlines())) <= 100
        kind = f"daybreak.{package}.{name.removesuffix('.java')}"
        # Janino writes wrong stack maps for some code; nothing else finds that before it runs.
        assert context._jvm.java.lang.Class.forName(kind, True, made).getName() == kind


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_is_one_class_in_all_files_of_a_package(package: str) -> None:
    """Janino takes all of them as one compilation unit."""
    imports = set(re.findall(r"^import ([\w.$]+);$", "\n".join(sources(package).values()), re.M))
    assert len({name.rsplit(".")[-1] for name in imports}) == len(imports)


@pytest.mark.slow
def test_a_package_is_compiled_once_per_jvm_and_forgotten_with_its_gateway(
    spark: SparkSession,
) -> None:
    context: Any = spark.sparkContext
    ours = JavaPackage(context._gateway, "stateful")
    assert JavaPackage(context._gateway, "stateful").loader is ours.loader
    known = len(loader._packages)
    launch: Any = java_gateway.launch_gateway
    other = launch()
    theirs = JavaPackage(other, "stateful")
    assert theirs.loader is not ours.loader
    assert theirs.new("FeedSource").toRead("/a b") == "file:///a b"
    assert len(loader._packages) == known + 1
    process = other.proc
    other.shutdown()
    process.stdin.close()
    process.wait(60)
    del theirs, other
    gc.collect()
    assert len(loader._packages) == known
