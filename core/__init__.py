"""The vocabulary: envelope, event types, contract, digests, tree, codec, errors. Pure: no I/O."""
