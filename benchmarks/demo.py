# SPDX-License-Identifier: MIT
"""What `weft demo` measures: its scores beside naive guesses, and what it took.

    python benchmarks/demo.py

Results go to benchmarks/results/demo.json; `readme_tables.py` makes the tables of them.
"""

import tempfile
import time

from results import write_results

from weft.demo import run_demo


def main() -> None:
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        done = run_demo(folder)
    found = {"scores": done.scores, "seconds": done.seconds, "processor_seconds": time.process_time() - begun}
    print(write_results("demo", found))


if __name__ == "__main__":
    main()
