"""The page of a report: what it says, and that nothing of an episode becomes markup."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.event import StoredEvent
from core.vocabulary import Payload
from core.vocabulary.base import BlobRef
from core.vocabulary.contract import Check, ExecError, Observation, ToolCall, Verification, Viewport
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    NoteAdded,
    VerificationRecorded,
)
from eventlog.blobs import BlobStore
from eventlog.inmemory import InMemoryLog
from eventlog.report import FIELDS, Page, Recorded
from eventlog.writer import Writer
from tests.eventlog import samples, screenshots
from tests.eventlog.samples import raw, stored
from tests.examples import examples

ROW = dict.fromkeys(FIELDS) | {"task": "alarm", "verdict": "fail", "steps": 3, "reward": 0.0, "goal": "seven"}
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'

VOID = {"meta", "link", "input", "br", "image", "use", "circle", "line", "polygon", "rect"}
"""Elements without an end tag: those of HTML, and those the page closes at once."""


class Tags(HTMLParser):
    """Every element with its attributes, and the page's texts by the element they stand in."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        return [found for name, found in self.elements if name == tag and attributes.items() <= found.items()]

    def text(self) -> str:
        return " ".join(" ".join(text for tag, text in self.texts if tag not in ("script", "style")).split())


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def recorded(payloads: list[Payload], name: str = "aa", **row: Any) -> Recorded:
    return Recorded(name, ROW | row, stored((f"episode/{name}", payloads)))


def page(store: BlobStore, *episodes: Recorded, **options: Any) -> Tags:
    return Tags("".join(Page(episodes, store, **options)))


def test_it_says_what_the_episode_was_and_how_it_was_judged(store: BlobStore) -> None:
    text = page(store, recorded(screenshots.episode(store.put)), position=18).text()
    for said in (
        "alarm fail",
        "reward 0",
        "Checks that did not pass fail alarm_set state",
        "expected: 07:00",
        "1 of 2 checks pass",
        "@16 fail by machine, 2026-01-02 03:04:20 UTC, reward 0",
        "@17 fail rules by human, 2026-01-02 03:04:21 UTC, instead of @16 It never confirmed.",
        "thought The clock is at the bottom.",
        "I will open the clock.",
        "swipe (54, 180) to (54, 60)",
        "before @3",
        "after @6",
        "tap (200, 20) lies outside the screen of 108×228",
        "after @12 · the picture is missing",
        "error timeout",
        "note @18 : It tapped beside the screen.",
        "as of position 18 of the log",
    ):
        assert said in text, said


def test_every_picture_is_in_the_page_once_and_referred_to_elsewhere(store: BlobStore) -> None:
    made = Page([recorded(screenshots.episode(store.put))], store)
    found = Tags("".join(made))
    images = found.all("image")
    assert [str(image["href"])[:22] for image in images] == ["data:image/png;base64,"] * 3
    assert len({image["id"] for image in images}) == 3
    used = [use["href"] for use in found.all("use")]
    assert set(used) <= {f"#{image['id']}" for image in images}
    assert len(used) == 2
    assert (made.pictures, len(made.missing)) == (3, 1)
    assert made.picture_bytes == sum(len(screenshots.png(c)) for c in ((20, 60, 120), (30, 30, 30), (200, 200, 210)))


def test_taps_are_drawn_where_they_were(store: BlobStore) -> None:
    found = page(store, recorded(screenshots.episode(store.put)))
    rings = [(circle["cx"], circle["cy"]) for circle in found.all("circle", **{"class": "ring"})]
    assert rings == [("54.0", "210.0"), ("54.0", "180.0"), ("0.0", "114.0"), ("0.0", "114.0")]
    (way,) = found.all("line", **{"class": "way"})
    assert (way["x1"], way["y1"], way["x2"], way["y2"]) == ("54.0", "180.0", "54.0", "60.0")
    assert len(found.all("line", **{"class": "beyond"})) == 1


def test_a_tap_is_drawn_on_the_blank_screen_where_no_picture_was_kept(store: BlobStore) -> None:
    seen = FeedbackRecorded(step=1, feedback=Observation(viewport=Viewport(1080, 2400), flags=["screenshot_absent"]))
    found = page(store, recorded([seen, screenshots.touched(1, "tap", 540, 600)]))
    assert [svg["viewbox"] for svg in found.all("svg")] == ["0 0 1080 2400"]
    assert [(ring["cx"], ring["cy"]) for ring in found.all("circle", **{"class": "ring"})] == [("540.0", "600.0")]
    assert "no picture was kept" in found.text()


def test_without_images_the_touches_stay(store: BlobStore) -> None:
    found = page(store, recorded(screenshots.episode(store.put)), images=False)
    assert found.all("image") == []
    assert len(found.all("circle", **{"class": "ring"})) == 4
    assert "the picture was left out" in found.text()


def test_pictures_that_are_none_are_never_put_in(store: BlobStore) -> None:
    svg, cut = store.put(SVG), store.put(screenshots.png((1, 2, 3))[:20])
    lies = BlobRef(address=svg.address, size=svg.size, media_type="image/png")
    payloads: list[Payload] = [screenshots.seen(1, svg), screenshots.seen(1, cut), screenshots.seen(1, lies)]
    text = "".join(Page([recorded(payloads)], store))
    assert "image/svg+xml;base64" not in text
    assert Tags(text).all("image") == []
    assert text.count("not a picture that is shown here") == 3


def test_a_picture_whose_bytes_were_altered_is_shown_as_missing(store: BlobStore, tmp_path: Path) -> None:
    blob = store.put(screenshots.png((1, 2, 3)))
    (file,) = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file() and path.stat().st_size == blob.size]
    file.chmod(0o600)
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    made = Page([recorded([screenshots.seen(1, blob)])], store)
    assert Tags("".join(made)).all("image") == []
    assert made.missing == [blob.address]


def test_the_page_lets_nothing_run_but_its_own_script(store: BlobStore) -> None:
    found = page(store, recorded(screenshots.episode(store.put)))
    (policy,) = found.all("meta", **{"http-equiv": "Content-Security-Policy"})
    parts = dict(part.split(" ", 1) for part in str(policy["content"]).split("; "))
    assert parts.pop("default-src") == "'none'"
    assert parts.pop("img-src") == "data:"
    assert all(re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", parts.pop(name)) for name in ("style-src", "script-src"))
    assert parts == {"base-uri": "'none'", "form-action": "'none'"}


def test_nothing_in_the_page_leads_elsewhere(store: BlobStore) -> None:
    found = page(store, recorded(screenshots.episode(store.put), goal="see https://example.org"))
    for tag, attributes in found.elements:
        assert not {
            name for name in attributes if name.startswith("on") or name in ("src", "style", "action", "srcset")
        }
        if "href" in attributes:
            assert str(attributes["href"]).startswith(("#", "data:")), tag
    ids = [str(attributes["id"]) for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {str(link["href"])[1:] for link in found.all("a")} <= set(ids)


def test_two_episodes_are_compared(store: BlobStore) -> None:
    ours = recorded(samples.episode(verdict="fail", steps=2))
    theirs = recorded(samples.episode(verdict="pass", steps=3), "bb", verdict="pass")
    found = page(store, ours, theirs)
    text = found.text()
    assert "Different: calls, verdict; 2 calls in common." in text
    assert "first divergence: answered otherwise" in text
    assert "+ @10 tool_3" in text
    assert {"a7", "b7", "b10"} <= {str(attributes.get("id")) for _, attributes in found.elements}
    assert text.count("first divergence @7") == 0
    parted = [attributes["id"] for _, attributes in found.elements if "parted" in str(attributes.get("class"))]
    assert parted == ["a7", "b7"]


def test_a_step_that_failed_is_marked(store: BlobStore) -> None:
    found = page(store, recorded(samples.episode(steps=2)))
    assert [step["class"] for step in found.all("section") if str(step["class"]).startswith("step")] == [
        "step",
        "step",
        "step failed",
        "step failed",
    ]


def test_long_texts_of_the_blob_store_are_cut_and_said_to_be(store: BlobStore) -> None:
    blob = store.put(b"word " * 100_000)
    found = page(store, recorded([ModelResponded(step=1, content=blob)]))
    text = found.text()
    assert "text/plain, 500,000 bytes" in text
    assert "the first 131,072 bytes" in text
    assert text.count("word ") < 30_000


@pytest.mark.parametrize("payloads", [[], [NoteAdded(text="alone")], [EpisodeStarted()]])
def test_an_episode_without_steps_or_events_has_a_page(store: BlobStore, payloads: list[Payload]) -> None:
    made = Recorded("aa", {}, stored(("episode/aa", payloads)) if payloads else [])
    text = page(store, made).text()
    assert "aa unverified" in text
    assert "Nobody has judged it." in text
    assert ("This episode has no events." in text) == (not payloads)


def test_payloads_of_another_shape_are_shown_as_they_are_stored(store: BlobStore) -> None:
    log, writer = InMemoryLog(), Writer("test")
    bodies = {
        "HologramShown": b'{"beam": "blue", "viewport": 3}',
        "ActionSubmitted": b'{"action": {"kind": "Ui", "op": "tap", "target": {"kind": "point", "x": "left"}}}',
        "FeedbackRecorded": b'{"feedback": {"kind": "Observation", "blobs": [3], "viewport": {"width": "w"}}}',
        "ModelResponded": b'{"step": 1, "content": {"deep": [1]}, "thought": 5}',
        "NoteAdded": b'{"text": 5, "target": 1}',
        "VerificationRecorded": b'{"verification": 5}',
    }
    for type_, body in bodies.items():
        log.append(writer.raw("episode/aa", type_, body, schema=9, occurred_at=samples.START))
    text = page(store, Recorded("aa", ROW, list(log.read_all()))).text()
    assert "HologramShown" in text and "beam: blue" in text
    assert "x: left" in text


NASTY = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            "</script><script>alert(1)</script>",
            '"><img src=x onerror=alert(1)>',
            "' onmouseover='alert(1)",
            "</pre></details><iframe src='javascript:alert(1)'>",
            "{{ 7 * 7 }}{% raw %}",
            "<!--",
            "-->",
            "<![CDATA[",
            "]]>",
            "&lt;b&gt;&amp;&#34;",
            "javascript:alert(1)",
            "</style><style>*{display:none}</style>",
            "</title>",
            "<svg/onload=alert(1)>",
            "\x1b]0;x\x07\x00\x9b31m",
            "\u202e\u2066\u2028\ufeff",
            "漢字 العربية 🧑‍🚀",
            "a" * 700,
            "episode/aa@<b>1",
        ]
    ),
)


def _episode(texts: Iterator[str], image: BlobRef) -> list[Payload]:
    """An episode with the next of the texts wherever a text can be."""

    def blob(text: str) -> BlobRef:
        return BlobRef(address=f"sha256:{text}", size=1, media_type=f"text/{text}")

    return [
        EpisodeStarted(task=next(texts), goal=next(texts), policy=next(texts), versions={next(texts): next(texts)}),
        MessageRecorded(role="user", content=raw([{"type": "text", "text": next(texts)}, {"x": next(texts)}])),
        screenshots.seen(1, image, blob(next(texts)), flags=[next(texts)]),
        ModelResponded(step=1, content=next(texts), thought=next(texts)),
        screenshots.touched(1, "tap", 5, 5, space=next(texts)),
        ActionSubmitted(step=1, action=ToolCall(tool=next(texts), args=raw({next(texts): next(texts)}))),
        FeedbackRecorded(
            step=1,
            feedback=ExecError(class_="timeout", retryable=False, effect="none", message=next(texts)),
            action=6,
        ),
        VerificationRecorded(
            verification=Verification(
                verdict="fail",
                checks=[
                    Check(
                        id=next(texts),
                        policy="state",
                        verdict="fail",
                        evidence_refs=[next(texts)],
                        detail=raw(next(texts)),
                    )
                ],
            ),
            source="human",
            why=next(texts),
        ),
        NoteAdded(text=next(texts), target=5),
    ]


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(NASTY, min_size=25, max_size=25), verdict=NASTY)
def test_nothing_of_an_episode_becomes_markup(store: BlobStore, texts: list[str], verdict: str) -> None:
    image = store.put(screenshots.png((1, 2, 3)))
    texts = [text.encode(errors="replace").decode() for text in texts]
    plain, nasty = (
        "".join(Page([_made(texts_, image, verdict_)] * 2, store))
        for texts_, verdict_ in ((["x"] * 25, "fail"), (texts, verdict))
    )
    assert _skeleton(nasty) <= _skeleton(plain)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]", nasty)


def _made(texts: list[str], image: BlobRef, verdict: str) -> Recorded:
    rest = iter(texts)
    events: list[StoredEvent] = stored(("episode/aa", _episode(rest, image)))
    row = {name: texts[number % len(texts)] for number, name in enumerate(FIELDS) if not name.endswith("_at")}
    return Recorded(texts[0] or "aa", row | {"verdict": verdict, "steps": 1, "retracted": False}, events)


def _skeleton(text: str) -> set[tuple[str, str]]:
    """The kinds of elements and attributes in a page."""
    return {(tag, name) for tag, attributes in Tags(text).elements for name in ("", *attributes)}


def test_json_in_a_page_is_text(store: BlobStore) -> None:
    call = ActionSubmitted(step=1, action=ToolCall(tool="t", args=msgspec.Raw(b'{"a": "</script>\\u0000"}')))
    assert "a: </script>\\x00" in page(store, recorded([call])).text()
