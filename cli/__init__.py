"""`trajlog`: one module per command, loaded only when it is called, and no logic of its own."""
