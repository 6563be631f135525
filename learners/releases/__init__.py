"""Releases: rows of a view as of a cut, frozen under an id that follows from what they hold.

`build` chooses rows by a recipe, writes them as Arrow shards with a manifest, and says so in the log;
`rebuild` does it again and compares; `checking` finds edited files; `difference` explains two releases.
"""
