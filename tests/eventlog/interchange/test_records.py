import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import BadRecord, NotFound
from eventlog.interchange.records import Record, Rejected, records
from eventlog.interchange.sources import Source, expand


def read(tmp_path: Path, data: bytes, name: str = "a.json") -> list[Record | Rejected]:
    path = tmp_path / name
    path.write_bytes(data)
    source = Source(name, path)
    with source.open() as reader:
        return list(records(source, reader))


def whys(items: list[Record | Rejected]) -> list[str | None]:
    return [item.why if isinstance(item, Rejected) else None for item in items]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "is empty"),
        (b" \n\n", "nothing but white space"),
        (bytes(range(256)), "binary data"),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "image/png"),
        ('[{"a":1}]'.encode("utf-16"), "UTF-16"),
        ('[{"a":1}]'.encode("utf-16-le"), "UTF-16"),
        ('{"a":1}'.encode("utf-16-be"), "UTF-16"),
        ('[{"a":1}]'.encode("utf-32"), "UTF-32"),
        (b"<!DOCTYPE html><html></html>", "HTML"),
        (b'<?xml version="1.0"?>', "XML"),
        (b"a,b,c\n1,2,3\n", "table"),
        (b"hello", "text that begins 'hello'"),
        (gzip.compress(b"{}", mtime=0), "gzip"),
        (b"PK\x03\x04....", "zip"),
    ],
)
def test_what_is_no_json_text_is_named(tmp_path: Path, data: bytes, what: str) -> None:
    with pytest.raises(BadRecord, match=what) as caught:
        read(tmp_path, data)
    assert caught.value.where == "a.json"
    assert caught.value.mend


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b'{"a": NaN}', "NaN, which is not JSON"),
        (b'{"a": -Infinity}', "-Infinity, which is not JSON"),
        (b'{"a": "\\ud800"}', "holds \\ud800, half a character"),
        (b'{"a": "\\udc00 \\ud83d\\ude00"}', "holds \\udc00, half a character"),
        (b'{"a": "\xff"}', "not valid UTF-8"),
        (b'{"a": "b\nc"}', "malformed JSON: invalid character"),
        (b'{"a": ' + b"[" * 3000 + b"]" * 3000 + b"}", "nested too deep"),
        (b'{"a": 01}', "malformed JSON"),
        (b"[1]", "an array, not an object"),
        (b"5", "a number, not an object"),
        (b"null", "null, not an object"),
        (b"", "nothing between two commas"),
        (b'{"a": 1}{"b": 2}', "trailing characters"),
    ],
)
def test_a_bad_record_is_rejected_alone_and_named(tmp_path: Path, bad: bytes, why: str) -> None:
    first, refused, last = read(tmp_path, b'[{"n": 1},' + bad + b',{"n": 2}]')
    assert isinstance(first, Record) and first.data == b'{"n": 1}'
    assert isinstance(last, Record) and last.data == b'{"n": 2}'
    assert isinstance(refused, Rejected)
    assert refused.where == "a.json[1]"
    assert why in refused.why


def test_the_byte_named_is_that_of_the_file(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbf{"n": 1}\n{"a": NaN}\n'
    _, refused = read(tmp_path, data)
    assert refused.where == "a.json:2"
    assert whys([refused]) == [f"holds NaN, which is not JSON: write null instead (at byte {data.index(b'NaN')})"]


@pytest.mark.parametrize("end", [b"", b"]", b",", b', {"b"', b', {"b": "', b', {"b": 1'])
def test_a_file_cut_short_keeps_what_came_before(tmp_path: Path, end: bytes) -> None:
    items = read(tmp_path, b'[{"n": 1}' + end)
    assert isinstance(items[0], Record)
    assert len(items) == (1 if end == b"]" else 2)
    if end != b"]":
        assert "cut short" in str(whys(items)[1])


def test_a_last_line_cut_short_is_rejected_alone(tmp_path: Path) -> None:
    assert whys(read(tmp_path, b'{"n": 1}\n{"n": "abc'))[0] is None
    assert "cut short" in str(whys(read(tmp_path, b'{"n": 1}\n{"n": "abc'))[1])


@pytest.mark.parametrize(
    ("data", "name", "places"),
    [
        (b'[{"a":1},{"a":2}]', "a.json", ["a.json[0]", "a.json[1]"]),
        (b'{"a":1}\n\n{"a":2}', "a.json", ["a.json:1", "a.json:3"]),
        (b'{"a"\n{"a":2}', "a.jsonl", ["a.jsonl:1", "a.jsonl:2"]),
        (b'{"a"x}\n{"a":2}', "a.txt", ["a.txt:1", "a.txt:2"]),
        (json.dumps({"a": [1, 2]}, indent=1).encode(), "a.json", ["a.json"]),
        (b'{\n"a":1}\n{\n"a":2}', "a.json", ["a.json", "a.json[1]"]),
        (b'{"a":1}', "a.json", ["a.json:1"]),
    ],
)
def test_each_layout_is_recognised(tmp_path: Path, data: bytes, name: str, places: list[str]) -> None:
    assert [item.where for item in read(tmp_path, data, name)] == places


def test_a_nul_in_a_text_is_kept(tmp_path: Path) -> None:
    (record,) = read(tmp_path, b'{"a": "x\\u0000y"}')
    assert isinstance(record, Record)
    assert record.value == {"a": "x\0y"}


def test_a_folder_is_searched_and_hidden_files_are_left_out(tmp_path: Path) -> None:
    for name in ("b.json", "a/c.JSONL", ".git/d.json", "a/.e.json", "f.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    found = expand([str(tmp_path)], [".json", ".jsonl"])
    assert [Path(source.name).name for source in found] == ["c.JSONL", "b.json"]


def test_a_source_named_twice_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text("{}")
    Path("b.json").write_text("{}")
    assert [source.name for source in expand(["b.json", "*.json", "./a.json"], [".json"])] == ["b.json", "a.json"]


@pytest.mark.parametrize("name", ["none.json", "*.nothing", "."])
def test_a_name_that_names_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound) as caught:
        expand([name], [".json"])
    assert caught.value.where == name


def test_a_file_that_may_not_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_text("{}")

    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(BadRecord, match="cannot be read: Permission denied"), Source("a.json", path).open():
        pass
