"""Logs of the Inspect evaluation framework."""
