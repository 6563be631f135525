"""Versions of the log: cuts, tags that name them, receipts and proofs.

A *cut* is the log up to a position, with its Merkle root. A *tag* names a cut for ever, signed with
the instance's key. A *receipt* is a tag that left the house; a *proof* shows an auditor events under
a tag's root, with no database.
"""
