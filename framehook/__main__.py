"""`python -m framehook`: see `framehook.cli`."""

import sys

from framehook.cli import main

if __name__ == "__main__":
    sys.exit(main())
