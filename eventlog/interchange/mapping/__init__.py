"""What the mappings of several formats share."""
