"""Lineage both ways: a release's row to the events it rests on and their place in Kafka, and an event to the
rows and releases that hold it."""
