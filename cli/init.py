"""`trajlog init`."""

from cli.frame import Json, command
from cli.output import print_json, print_text
from cli.settings import mask, settings


@command("trajlog init", "trajlog init --db postgresql://owner@db.example/trajlog")
def init(json: Json = False) -> None:
    """Create the log: start the database and bring its schema up to date.

    Done again, it changes nothing. With --db, the login must be one that may create schemas and roles:
    that of the database's owner.
    """
    from core.identity import uuid_text
    from eventlog import schema
    from eventlog.embedded import Embedded

    chosen = settings()
    if chosen.db is None:
        server = Embedded(chosen.home)
        server.start()
        url, where = server.url(owner=True), str(chosen.home)
    else:
        url, where = chosen.db, mask(chosen.db)
    found = schema.upgrade(url)
    with chosen.open() as log:
        log_id = uuid_text(log.log_id)
    if json:
        print_json({"log": log_id, "db": where, "schema": schema.SCHEMA, "previous": found})
    elif found is None:
        print_text(f"log {log_id} created in {where}")
    elif found == schema.SCHEMA:
        print_text(f"log {log_id} is in {where} and up to date")
    else:
        print_text(f"log {log_id} in {where} brought from schema {found} to {schema.SCHEMA}")
