"""`python -m cli` is `trajlog`."""

from cli.main import main

main()
