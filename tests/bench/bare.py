"""The least a process can do to print what `ls --verdict fail` or `show` prints: import, connect, query.

`start` is the part of it that every command shares.
"""

import sys

import msgspec
import psycopg
import typer

LS = (
    "SELECT episode, task, source, policy, verdict, reward, steps, events, tokens, failing_tool "
    "FROM trajlog_view.episode WHERE verdict = 'fail' AND NOT retracted ORDER BY position DESC LIMIT 50"
)
SHOW = "SELECT position, version, type, body FROM trajlog.event WHERE stream = %s ORDER BY version"

typer.Typer()
what, url, episode = sys.argv[1:]
with psycopg.connect(url, autocommit=True) as connection:
    if what == "start":
        print(connection.execute("SELECT 1").fetchone())
    elif what == "ls":
        for row in connection.execute(LS):
            print(*row)
    else:
        for position, version, type_, body in connection.execute(SHOW, (f"episode/{episode}",)):
            print(position, version, type_, msgspec.json.decode(body))
