from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest

from core.errors import BadRecord, UsageError
from eventlog import interchange
from eventlog.interchange import Confidence, Context, EpisodeDraft, Importer, Record, Source, find, names
from eventlog.interchange.detect import detect
from tests.eventlog.interchange.results import result, text


class Other(Importer):
    """An importer of another package that takes anything with a `traj`."""

    name: ClassVar[str] = "other"
    mapping: ClassVar[int] = 1
    confidence: ClassVar[Confidence] = Confidence.CERTAIN

    def sniff(self, head: bytes, first: dict[str, Any] | None) -> Confidence:
        return self.confidence if first and "traj" in first else Confidence.NO

    def episodes(self, record: Record, context: Context) -> Iterator[EpisodeDraft]:
        yield from ()


class Zip(Other):
    name: ClassVar[str] = "zip"

    def sniff(self, head: bytes, first: dict[str, Any] | None) -> Confidence:
        return Confidence.CERTAIN if head.startswith(b"PK") else Confidence.NO


@pytest.fixture(autouse=True)
def one_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interchange, "FORMATS", {"tau-bench": interchange.FORMATS["tau-bench"]})


def install(monkeypatch: pytest.MonkeyPatch, importer: type[Importer]) -> None:
    point = EntryPoint(importer.name, f"{__name__}:{importer.__name__}", interchange.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda _: importer)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])


def found(tmp_path: Path, data: bytes, name: str = "a.json") -> str:
    path = tmp_path / name
    path.write_bytes(data)
    source = Source(name, path)
    with source.open() as reader:
        chosen = detect(source, reader).name
        assert reader.offset == 0
        return chosen


def test_a_format_is_found_by_the_first_good_record(tmp_path: Path) -> None:
    assert found(tmp_path, text(result())) == "tau-bench"
    large = result(traj=[{"role": "user", "content": "x" * 300_000}])
    assert found(tmp_path, text(large)) == "tau-bench"
    assert found(tmp_path, b"[{]," + text(result())[1:]) == "tau-bench"


def test_an_unknown_format_is_said_with_what_the_record_has(tmp_path: Path) -> None:
    with pytest.raises(BadRecord, match="in no known format: its first record has a, b"):
        found(tmp_path, b'[{"a": 1, "b": 2}]')
    with pytest.raises(BadRecord, match="holds no records"):
        found(tmp_path, b"[]")


def test_where_every_record_is_bad_the_first_fault_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadRecord, match=r"a\.json\[0\]: malformed JSON"):
        found(tmp_path, b"[{1}, {2}]")


def test_where_two_formats_fit_it_is_left_to_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Other)
    with pytest.raises(UsageError, match="could be other and tau-bench; say which with --format"):
        found(tmp_path, text(result()))


def test_the_better_fit_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Other)
    monkeypatch.setattr(Other, "confidence", Confidence.LIKELY)
    assert found(tmp_path, text(result())) == "tau-bench"


def test_an_importer_may_take_what_is_no_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Zip)
    assert found(tmp_path, b"PK\x03\x04...") == "zip"


def test_other_packages_add_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Other)
    assert {"other", "tau-bench"} <= set(names())
    assert isinstance(find("other"), Other)


def test_an_importer_that_does_not_load_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Other)

    def fail(_: EntryPoint) -> None:
        raise ImportError("no such module")

    monkeypatch.setattr(EntryPoint, "load", fail)
    with pytest.raises(UsageError, match="does not load"):
        find("other")


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no format 'x'; known ones are .*tau-bench"):
        find("x")
