"""`trajlog config`."""

from cli.frame import Json, command
from cli.output import print_json, print_table
from cli.settings import config_file, explain, mask


@command("trajlog config", "trajlog config --json", "TRAJLOG_DB=postgresql://localhost/log trajlog config")
def config(json: Json = False) -> None:
    """Show each setting and what it was set by.

    A flag goes before the environment (TRAJLOG_DB, TRAJLOG_LOG, TRAJLOG_HOME, TRAJLOG_BLOBS), that before
    the config file, that before the default. Secrets in URLs are shown as ***.
    """
    found = [s._replace(value=s.value and mask(s.value)) for s in explain()]
    if json:
        print_json(
            {"config": str(config_file()), "settings": [s._asdict() for s in found]},
        )
        return
    print_table(("setting", "value", "source", "where"), found)
