"""`trajlog key`: the key that signs tags and proofs."""

from typing import Annotated

import typer

from cli.frame import Json, command
from cli.output import note, print_json, print_text
from cli.settings import settings


@command("trajlog key show", "trajlog key show > auditors-copy.txt", "trajlog key show --json")
def show(json: Json = False) -> None:
    """Print the public key of this instance.

    64 hex digits, to be given to whoever shall check proofs: trajlog proof check --key. The private key
    stays in the key folder (TRAJLOG_KEYS), of which you keep a backup apart from the database's.

    JSON: {key, log, instance}.
    """
    from core.errors import NotFound
    from core.identity import uuid_text
    from eventlog.versions import rotation
    from eventlog.versions.keys import KeyLost, Keys

    chosen = settings()
    keys = Keys(chosen.keys)
    with chosen.open() as log:
        instance = rotation.instance_of(log)
        signer = keys.signer(instance)
        if signer is None:
            lost = rotation.last_key(log, instance)
            if lost:
                raise KeyLost(lost, keys.folder)
            raise NotFound("there is no key yet", where=str(keys.folder), mend="the first tag makes one")
        log_id = log.log_id
    if json:
        print_json({"key": signer.key.hex(), "log": uuid_text(log_id), "instance": uuid_text(instance)})
    else:
        print_text(signer.key.hex())


@command(
    "trajlog key rotate --why 'Its holder left.'",
    "trajlog key rotate --lost",
)
def rotate(
    lost: Annotated[bool, typer.Option("--lost", help="The old key is gone: start anew without it.")] = False,
    why: Annotated[str | None, typer.Option(metavar="TEXT", help="What it rests on; it stays in the log.")] = None,
    json: Json = False,
) -> None:
    """Replace the key that signs.

    An event in the log says so: the old key signs the new one, and the new one accepts the old, so that
    tags signed before still verify. The old key is then removed. After --lost nobody vouches for the
    tags of the old key any more, but who kept its public key can: trajlog tag verify --key.

    JSON: {key, instance}.
    """
    from core.identity import uuid_text
    from eventlog.versions import rotation
    from eventlog.versions.keys import Keys

    chosen = settings()
    keys = Keys(chosen.keys)
    with chosen.open() as log:
        instance = rotation.instance_of(log)
        new = rotation.rotate(log, keys, lost=lost, why=why)
    if json:
        print_json({"key": new.key.hex(), "instance": uuid_text(instance)})
    else:
        print_text(new.key.hex())
        note("from now on this key signs; give it to whoever checks proofs")
