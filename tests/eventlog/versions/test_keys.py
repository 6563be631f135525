"""The key folder: private, whole after any crash, and a rotation that nobody else can make."""

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import Unavailable, UsageError
from core.identity import uuid_text
from core.tag import rotation_bytes
from core.vocabulary import payload
from core.vocabulary.access import KeyRotated
from eventlog.ledger import Ledger
from eventlog.versions import rotation, tags
from eventlog.versions.keys import KeyLost, Keys, read_key, signed
from eventlog.versions.rotation import instance_of, vouched
from eventlog.writer import Writer
from tests.databases import Database

ME = b"i" * 16


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "home" / "keys")


@pytest.fixture
def log(ledger: Ledger) -> Ledger:
    ledger.append(Writer().raw("episode/1", "NoteAdded", b"{}"))
    return ledger


def rotations(log: Ledger) -> list[KeyRotated]:
    said = [payload(event) for event in log.read_all() if event.type == "KeyRotated"]
    return [one for one in said if isinstance(one, KeyRotated)]


# -- files -------------------------------------------------------------------------------------------


def test_a_key_is_made_once_and_nobody_else_may_read_it(keys: Keys) -> None:
    previous = os.umask(0)
    try:
        made = keys.make(ME)
    finally:
        os.umask(previous)
    assert keys.make(ME).key == made.key
    found = keys.signer(ME)
    assert found is not None and found.key == made.key
    assert stat.S_IMODE(keys.folder.stat().st_mode) == 0o700
    for file in keys.folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_several_at_once_make_one_key(keys: Keys) -> None:
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(keys.make(ME).key)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1


def test_instances_have_keys_of_their_own(keys: Keys) -> None:
    assert keys.make(ME).key != keys.make(b"j" * 16).key
    assert len(keys.held()) == 2


def test_there_is_no_key_before_it_is_made(keys: Keys) -> None:
    assert keys.signer(ME) is None
    assert keys.held() == set()
    assert not keys.folder.exists()


def test_a_signature_is_of_the_data_and_the_key_alone(keys: Keys) -> None:
    one, other = keys.make(ME), keys.make(b"j" * 16)
    signature = one.sign(b"data")
    assert signed(one.key, b"data", signature)
    assert not signed(one.key, b"date", signature)
    assert not signed(other.key, b"data", signature)
    assert not signed(one.key, b"data", signature[:-1])
    assert not signed(b"short", b"data", signature)


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda file: file.chmod(0o640), "others may read this key; run: chmod 600"),
        (lambda file: file.write_text("ab\n"), "this is not a key; restore it from its own backup"),
        (lambda file: file.write_text(""), "this is not a key"),
        (lambda file: file.write_bytes(b"\xff" * 64), "this is not a key"),
    ],
)
def test_a_key_file_that_cannot_be_trusted_is_refused(keys: Keys, spoil: Callable[[Path], None], what: str) -> None:
    keys.make(ME)
    (file,) = keys.folder.glob("*.key")
    spoil(file)
    for use in (lambda: keys.signer(ME), keys.held, lambda: keys.make(ME)):
        with pytest.raises(Unavailable, match=what) as raised:
            use()
        assert "\n" not in str(raised.value)


def test_a_folder_that_others_may_enter_is_refused(keys: Keys) -> None:
    keys.folder.mkdir(parents=True)
    keys.folder.chmod(0o755)
    with pytest.raises(Unavailable, match="others may enter the key folder; run: chmod 700"):
        keys.make(ME)


def test_the_url_of_a_key_service_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match="keys in a key service are not supported yet; name a folder instead"):
        Keys("kms://region/key")


@pytest.mark.parametrize("text", ["", "ab", "g" * 64, "a" * 63, "a" * 65, "/no/such/file", "/"])
def test_a_public_key_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="public key"):
        read_key(text)


def test_a_public_key_is_digits_or_a_file_with_them(tmp_path: Path) -> None:
    file = tmp_path / "key.txt"
    file.write_text("ab" * 32 + "\n")
    assert read_key("ab" * 32) == read_key(str(file)) == b"\xab" * 32
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not 64 hex digits"):
        read_key(str(file))


# -- rotation ----------------------------------------------------------------------------------------


def test_a_rotation_is_an_event_that_both_keys_sign(log: Ledger, keys: Keys) -> None:
    old = tags.create(log, keys, "before").key
    new = rotation.rotate(log, keys, why="its holder left")
    (event,) = [event for event in log.read_all() if event.type == "KeyRotated"]
    (said,) = rotations(log)
    instance = instance_of(log)
    data = rotation_bytes(log.log_id, instance, old, new.key)
    assert event.stream == f"instance/{uuid_text(instance)}"
    assert (said.old, said.new, said.why) == (old.hex(), new.key.hex(), "its holder left")
    assert signed(old, data, bytes.fromhex(said.signature or ""))
    assert signed(new.key, data, bytes.fromhex(said.accepted or ""))
    assert keys.held() == {new.key}
    assert tags.create(log, keys, "after").key == new.key


def test_old_tags_still_verify_after_any_number_of_rotations(log: Ledger, keys: Keys) -> None:
    tags.create(log, keys, "t0")
    for i in range(1, 4):
        rotation.rotate(log, keys)
        tags.create(log, keys, f"t{i}")
    found = tags.tags(log)
    assert len({receipt.key for receipt in found}) == 4
    assert {receipt.key for receipt in found} == tags.trusted(log, keys, found)
    assert [tags.fault(log, receipt) for receipt in found] == [None] * 4


def test_who_trusts_an_old_key_can_trust_its_successors(log: Ledger, keys: Keys) -> None:
    old = tags.create(log, keys, "before").key
    new = rotation.rotate(log, keys).key
    assert vouched(log, [instance_of(log)], [old]) == {old, new}


@pytest.mark.parametrize("spoil", ["signature", "accepted", "both"])
def test_a_rotation_that_one_of_the_keys_did_not_sign_joins_nothing(
    log: Ledger, keys: Keys, tmp_path: Path, spoil: str
) -> None:
    """Whoever can write to the log but has no key cannot have his own key trusted."""
    mine = tags.create(log, keys, "gold").key
    forger = Keys(tmp_path / "forger").make(ME)
    instance = instance_of(log)
    for old, new in ((forger.key, mine), (mine, forger.key)):
        data = rotation_bytes(log.log_id, instance, old, new)
        forged = KeyRotated(
            key="instance_signing",
            new=new.hex(),
            old=old.hex(),
            signature=forger.sign(data).hex() if spoil != "signature" else None,
            accepted=forger.sign(data).hex() if spoil != "accepted" else "zz",
        )
        log.append(Writer().event(rotation._stream(instance), forged))
    assert tags.trusted(log, keys, tags.tags(log)) == {mine}


def test_a_rotation_of_another_log_joins_nothing(log: Ledger, keys: Keys) -> None:
    old, new = keys.make(ME), keys.make_successor(ME)
    data = rotation_bytes(b"o" * 16, instance_of(log), old.key, new.key)
    said = KeyRotated(
        key="instance_signing",
        new=new.key.hex(),
        old=old.key.hex(),
        signature=old.sign(data).hex(),
        accepted=new.sign(data).hex(),
    )
    log.append(Writer().event(rotation._stream(instance_of(log)), said))
    assert vouched(log, [instance_of(log)], [old.key]) == {old.key}


class Killed(BaseException):
    """Ends the process, as far as a test can."""


@pytest.mark.parametrize("where", ["append", "succeed"])
def test_a_rotation_that_was_interrupted_is_finished_by_whoever_signs_next(
    log: Ledger, keys: Keys, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    old = tags.create(log, keys, "before").key

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(log if where == "append" else keys, where, die)
        with pytest.raises(Killed):
            rotation.rotate(log, keys)
    assert keys.held() == {old}
    new = tags.create(log, keys, "after").key
    assert new != old and keys.held() == {new}
    assert [one.new for one in rotations(log)] == [new.hex()]
    assert tags.trusted(log, keys, tags.tags(log)) == {old, new}


# -- lost --------------------------------------------------------------------------------------------


def lose(keys: Keys) -> None:
    for file in keys.folder.glob("*.key"):
        file.unlink()


@pytest.mark.parametrize("rotated", [False, True])
def test_a_lost_key_is_said_and_not_replaced_in_silence(log: Ledger, keys: Keys, rotated: bool) -> None:
    key = tags.create(log, keys, "gold").key
    if rotated:
        key = rotation.rotate(log, keys).key
    lose(keys)
    for use in (
        lambda: tags.create(log, keys, "next"),
        lambda: tags.sign(log, keys),
        lambda: rotation.rotate(log, keys),
    ):
        with pytest.raises(KeyLost, match=f"the key {key.hex()[:16]}… that signs for this log is not here") as raised:
            use()
        assert "trajlog key rotate --lost" in str(raised.value)
        assert "\n" not in str(raised.value)
    assert keys.held() == set()


def test_after_a_loss_a_new_key_signs_and_the_old_tags_need_somebody_who_knows_theirs(log: Ledger, keys: Keys) -> None:
    old = tags.create(log, keys, "before").key
    lose(keys)
    new = rotation.rotate(log, keys, lost=True).key
    tags.create(log, keys, "after")
    found = tags.tags(log)
    assert tags.trusted(log, keys, found) == {new}
    assert tags.trusted(log, keys, found, old) == {old, new}
    assert [(one.old, one.signature) for one in rotations(log)] == [(old.hex(), None)]


def test_a_key_that_is_there_is_not_lost(log: Ledger, keys: Keys) -> None:
    tags.create(log, keys, "gold")
    with pytest.raises(UsageError, match="the key is not lost"):
        rotation.rotate(log, keys, lost=True)


def test_there_is_nothing_to_rotate_before_the_first_key(log: Ledger, keys: Keys) -> None:
    for lost in (False, True):
        with pytest.raises(UsageError, match="there is no key yet; the first tag makes one"):
            rotation.rotate(log, keys, lost=lost)


def test_neither_the_database_nor_its_dump_holds_the_key(log: Ledger, keys: Keys, database: Database) -> None:
    tags.create(log, keys, "gold")
    rotation.rotate(log, keys)
    (file,) = keys.folder.glob("*.key")
    secret = file.read_text().strip()
    with database.tampering() as connection:
        tables = [
            name for (name,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'trajlog'")
        ]
        for table in tables:
            for row in connection.execute(f"SELECT t::text FROM trajlog.{table} t"):
                assert secret not in row[0]
        bodies = connection.execute("SELECT string_agg(encode(body, 'escape'), '') FROM trajlog.event").fetchone()
    assert bodies is not None and secret not in bodies[0]
