"""Makes sure that the jars of a Kafka broker and of Spark's Kafka connector are in .kafka/.

For the tests and examples/kafka only. Maven fetches them where it is installed, else Spark's own
resolver; both from the repositories they are set up for, Maven Central by default. Every jar is
checked against tools/kafka-jars.txt. Where no repository is reached, the Kafka tests are skipped
with a line that names the remedy; with CI=true that is an error, after a few tries.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JARS = ROOT / ".kafka"
LIST = Path(__file__).with_name("kafka-jars.txt")
#: Before it is an error: a repository may be out of reach for some minutes.
TRIES_IN_CI = 5
WAIT_S = 30.0
LIMIT_S = 600


@dataclass(frozen=True)
class Jar:
    """A jar that is wanted: ``.kafka/FOLDER/ARTIFACT-VERSION.jar``."""

    folder: str
    digest: str
    package: str

    @property
    def name(self) -> str:
        _, artifact, version = self.package.split(":")
        return f"{artifact}-{version}.jar"

    @property
    def path(self) -> Path:
        return JARS / self.folder / self.name

    def fits(self, path: Path) -> bool:
        return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == self.digest


def wanted() -> list[Jar]:
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return [Jar(*line.split()) for line in lines if line and not line.startswith("#")]


def by_maven(jars: Iterable[Jar], to: Path) -> None:
    """The listed jars and nothing that they depend on: the list is complete."""
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
        "</exclusions></dependency>".format(*jar.package.split(":"))
        for jar in jars
    )
    pom = to / "pom.xml"
    pom.write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>daybreak</groupId><artifactId>kafka-jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    command = ["mvn", "-q", "-B", "-U", "-f", str(pom), "dependency:copy-dependencies"]
    _run([*command, f"-DoutputDirectory={to}"])


def by_spark(jars: Iterable[Jar], to: Path) -> None:
    """Spark resolves the jars of ``ADD JAR ivy://...`` with the Ivy that it contains."""
    statements = [f"ADD JAR 'ivy://{jar.package}?transitive=false'" for jar in jars]
    program = (
        "import sys; from daybreak.spark.session import local_session; "
        "spark = local_session('kafka jars', 1, {'spark.jars.ivy': sys.argv[1]}); "
        "[spark.sql(statement) for statement in sys.argv[2:]]"
    )
    _run([sys.executable, "-c", program, str(to / "ivy"), *statements])
    for jar in jars:  # Ivy names them by their group, too
        group = jar.package.split(":")[0]
        found = to / "ivy" / "jars" / f"{group}_{jar.name}"
        if found.is_file():
            found.rename(to / jar.name)


def _run(command: list[str]) -> None:
    done = subprocess.run(  # noqa: S603  # our own commands
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S,
        check=False,
    )  # fmt: skip
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        telling = [x for x in lines if "ERROR" in x or "unresolved" in x or "not found" in x]
        print(f"  {command[0]}: {(telling or lines or ['failed'])[0][:300]}", file=sys.stderr)


def fetch(jars: list[Jar], way: Callable[[list[Jar], Path], None]) -> None:
    """Fetches what is missing of a folder; takes only what has the right digest."""
    JARS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=JARS) as name:
        way(jars, Path(name))
        for jar in jars:
            if jar.fits(Path(name) / jar.name):
                jar.path.parent.mkdir(parents=True, exist_ok=True)
                (Path(name) / jar.name).replace(jar.path)


def missing() -> list[Jar]:
    return [jar for jar in wanted() if not jar.fits(jar.path)]


def main() -> int:
    if not missing():
        return 0
    in_ci = os.environ.get("CI") == "true"
    print("Kafka's jars are missing: fetching them into .kafka (about 55 MB, half a minute)")
    for tried in range(TRIES_IN_CI if in_ci else 1):
        time.sleep(WAIT_S if tried else 0)
        for way in [by_maven] if shutil.which("mvn") else []:
            for folder in sorted({jar.folder for jar in missing()}):
                fetch([jar for jar in missing() if jar.folder == folder], way)
        for folder in sorted({jar.folder for jar in missing()}):
            fetch([jar for jar in missing() if jar.folder == folder], by_spark)
        if not missing():
            return 0
    some = ", ".join(jar.package for jar in missing()[:3])
    print(
        f"{'error' if in_ci else 'WARNING'}: {len(missing())} jars were not found ({some} ...): "
        "the Kafka tests are skipped. Connect to a Maven repository (~/.m2/settings.xml for mvn, "
        "spark.jars.ivySettings for Spark), then: make kafka",
        file=sys.stderr,
    )
    return 1 if in_ci else 0


if __name__ == "__main__":
    sys.exit(main())
