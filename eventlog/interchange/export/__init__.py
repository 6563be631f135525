"""Episodes going out in formats of other tools."""
