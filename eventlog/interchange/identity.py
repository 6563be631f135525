"""What the ids of an imported episode and its events follow from: the record alone."""

from core.identity import episode_id, uuid8, uuid8_series


class Identity:
    """What the ids of an imported episode follow from: its record, and which of the record's episodes
    it is (`ordinal`)."""

    def __init__(self, format: str, mapping: int, generation: int, digest: bytes, ordinal: int) -> None:
        numbers = [str(number).encode() for number in (mapping, generation, ordinal)]
        parts = (format.encode(), *numbers, digest)
        self.generation = generation
        self.stream = f"episode/{episode_id(*parts)}"
        self.run = uuid8(b"run", *parts)
        self.event = uuid8_series(*parts)
        """The id of an event, by its number as text."""
