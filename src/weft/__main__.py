# SPDX-License-Identifier: MIT
"""`python -m weft`: the command line without the script."""

import sys

from weft.cli import main

if __name__ == "__main__":
    sys.exit(main())
