"""`trajlog config`."""

from cli.frame import Json, command
from cli.output import print_json, print_table
from cli.settings import config_file, explain, explain_kafka, mask


@command("trajlog config", "trajlog config --json", "TRAJLOG_DB=postgresql://localhost/log trajlog config")
def config(json: Json = False) -> None:
    """Show each setting and what it was set by.

    A flag goes before the environment (TRAJLOG_DB, TRAJLOG_LOG, TRAJLOG_HOME, TRAJLOG_BLOBS), that before
    the config file, that before the default. Secrets are shown as ***.

    Options of the Kafka client (kafka.NAME) stand in the config file's table [kafka], in the environment
    (TRAJLOG_KAFKA_NAME: the place for secrets), or in the address itself (kafka://HOST/TOPIC?NAME=VALUE).
    """
    found = [*(s._replace(value=s.value and mask(s.value)) for s in explain()), *explain_kafka()]
    if json:
        print_json(
            {"config": str(config_file()), "settings": [s._asdict() for s in found]},
        )
        return
    print_table(("setting", "value", "source", "where"), found)
