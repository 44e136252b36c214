"""`python -m secfc.cli` is `secfc`."""

from secfc.cli import main

main(prog_name="secfc")
