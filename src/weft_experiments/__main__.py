# SPDX-License-Identifier: MIT
"""`python -m weft_experiments NAME [--quick]`."""

import argparse
import sys

from weft_experiments.options import VARIANTS
from weft_experiments.registry import EXPERIMENTS, run


def main(arguments: list[str] | None = None) -> int:
    listing = "; ".join(f"{name}: {meaning}" for name, meaning in EXPERIMENTS.items())
    parser = argparse.ArgumentParser(prog="python -m weft_experiments", description=f"Run one of {listing}.")
    parser.add_argument("name", choices=list(EXPERIMENTS))
    parser.add_argument("--quick", action="store_true", help="a small version of everything")
    parser.add_argument("--data", help="folder of the original files")
    parser.add_argument("--download", action="store_true", help="fetch the original files into --data first")
    parser.add_argument("--output", help="folder for the page, the numbers and the figures")
    parser.add_argument(
        "--variant", choices=VARIANTS, default="scripts", help="where script and text of the paper differ"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-iterations", type=int, help="most iterations of each fit")
    parser.add_argument("--max-seconds", type=float, help="most seconds of each fit (of each timing, in the benchmark)")
    parser.add_argument("--pseudo-points", type=int, nargs="+", help="numbers of pseudo-points")
    parser.add_argument("--sets", nargs="+", help="data sets, where an experiment has several")
    parser.add_argument("--num-times", type=int, nargs="+", help="lengths of the benchmark's series")
    parser.add_argument("--days", type=int, help="only the last so many days of temperatures")
    chosen = vars(parser.parse_args(arguments))
    try:
        page = run(chosen.pop("name"), **chosen)
    except (ValueError, FileNotFoundError, ConnectionError) as error:
        print(f"weft_experiments: {error}", file=sys.stderr)
        return 2
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
