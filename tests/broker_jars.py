"""Apache Kafka's jars, fetched once by Maven into a cache folder outside the checkout; and what Java keeps of them,
so that a broker starts in half the time (class data sharing)."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import platformdirs

from tests.once import alone

KAFKA = "4.1.1"
JAVA = 17
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>trajlog</groupId><artifactId>broker</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{}</dependencies>
</project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
_WANTED = (
    ("org.apache.kafka", "kafka_2.13", KAFKA),
    ("org.apache.kafka", "kafka-tools", KAFKA),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),  # else a broker that fails says nothing
)


class NoKafka(Exception):
    """Kafka cannot run here; says why."""


def java() -> str:
    """The Java to run it with; `NoKafka` if there is none that is new enough."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if program is None:
        raise NoKafka("no Java on this machine (Kafka needs 17 or newer)")
    said = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    version = said.partition('"')[2].partition('"')[0].partition(".")[0]
    if not version.isdigit() or int(version) < JAVA:
        raise NoKafka(f"Java is too old: {said.splitlines()[0] if said else program}")
    return program


def jars() -> Path:
    """The folder with the jars (`TRAJLOG_KAFKA_JARS`, else fetched); `NoKafka` if they cannot be had."""
    given = os.environ.get("TRAJLOG_KAFKA_JARS")
    if given:
        if not list(Path(given).glob("kafka_*.jar")):
            raise NoKafka(f"no Kafka in TRAJLOG_KAFKA_JARS={given}")
        return Path(given)
    cache = platformdirs.user_cache_path("trajlog")
    folder = cache / f"kafka-{KAFKA}"
    with alone(cache / "kafka.lock"):
        if not folder.exists():
            _fetch(cache, folder)
    return folder


def class_path(folder: Path) -> str:
    """The jars in an order that stays: else Java would not use what it kept of them."""
    return os.pathsep.join(sorted(map(str, folder.glob("*.jar"))))


def classes(program: str, train: Callable[[Path], None]) -> Path | None:
    """The folder with what this Java keeps of each main class, `<main>.jsa`; `train` fills one, the first time.
    None for jars that are not ours."""
    if "TRAJLOG_KAFKA_JARS" in os.environ:
        return None
    cache = platformdirs.user_cache_path("trajlog")
    version = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    folder = cache / f"kafka-{KAFKA}-java-{sha256(version.encode()).hexdigest()[:12]}"
    with alone(cache / "kafka-classes.lock"):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache) as place:
                found = Path(place, "classes")
                found.mkdir()
                train(found)
                found.rename(folder)
    return folder


def _fetch(cache: Path, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NoKafka("no Maven on this machine to fetch Kafka with")
    with tempfile.TemporaryDirectory(dir=cache) as place:
        pom, found = Path(place, "pom.xml"), Path(place, "jars")
        pom.write_text(_POM.format("".join(_DEPENDENCY.format(*wanted) for wanted in _WANTED)))
        options = ("-DincludeScope=runtime", f"-DoutputDirectory={found}")
        done = subprocess.run(
            [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *options],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or not list(found.glob("kafka_*.jar")):
            said = [line for line in done.stdout.splitlines() + done.stderr.splitlines() if "ERROR" in line]
            raise NoKafka(f"Maven cannot fetch Kafka {KAFKA}: {said[0][:300] if said else done.returncode}")
        found.rename(folder)
