"""Which partition a key belongs to: Kafka's own murmur2, as every client of the log must have it."""

from functools import lru_cache

from kafka.partitioner.default import murmur2


@lru_cache(maxsize=16_384)
def key_hash(key: bytes) -> int:
    """The key's non-negative hash. Streams come in runs, so most are remembered."""
    return int(murmur2(key)) & 0x7FFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """The partition, of so many, that a record with this key lies in."""
    return key_hash(key) % partitions
