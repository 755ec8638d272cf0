"""``python -m daybreak``."""

from daybreak.cli.main import main

main()
