"""What learns from the log: curation, releases, SFT, CARE."""
