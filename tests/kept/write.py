# SPDX-License-Identifier: MIT
"""Write the numbers down: `python -m tests.kept.write`. They are those of 0.1; write them anew only for a change that is meant."""

import json
import pathlib

import jax
import numpy as np

from tests.kept import cases

jax.config.update("jax_enable_x64", True)

HERE = pathlib.Path(__file__).parent


def main() -> None:
    numbers = {
        name: {key: np.asarray(value).tolist() for key, value in function().items()}
        for name, function in cases.CASES.items()
    }
    (HERE / "numbers.json").write_text(json.dumps(numbers, indent=0) + "\n")
    cases.FILES.mkdir(exist_ok=True)
    cases.kept_posterior().save(cases.FILES / "posterior.weft", rows=True)
    cases.kept_estimator().save(cases.FILES / "estimator.weft")
    cases.estimator_with_levels().save(cases.FILES / "levels.weft", rows=False)


if __name__ == "__main__":
    main()
