# SPDX-License-Identifier: MIT
"""A few dozen random models against eighty digits; 2,000 of them by `make models`."""

import pytest

import weft
from tests.trust.random_models import LIKELIHOODS, NUM_STRUCTURES, kinds_of, structure, worst_of

# Each compiles its own programs: one in the plane, one on the sphere or a graph, one with a likelihood that is not Gaussian.
STRUCTURES = (2, 9, 12)
EACH = 12


@pytest.mark.parametrize("first", STRUCTURES)
def test_random_models_are_as_right_as_their_condition_lets_them_be(first: int) -> None:
    numbers = [first + NUM_STRUCTURES * place for place in range(EACH)]
    for quantity, worst in worst_of(numbers).nearest.items():
        assert worst.error <= worst.bound, (
            f"{quantity} of model {worst.model}: {worst.error:.1e}, bound {worst.bound:.0e}"
        )


def test_structures_differ_in_what_they_may_differ_in() -> None:
    all_of_them = [structure(number) for number in range(NUM_STRUCTURES)]
    components = [component for one in all_of_them for component in one.components]
    kernels = [kernel for component in components for kernel in (component.space, component.time)]
    assert set().union(*map(kinds_of, kernels)) == {
        *("eq", "matern12", "matern32", "matern52", "matern72", "rational quadratic", "periodic", "cosine", "constant"),
        *("linear", "wiener", "sum", "product", "scaled", "columns", "sphere", "graph"),
    }
    assert {component.basis for component in components} == {"pseudo", "all", "waves", "own"}
    assert {one.power for one in all_of_them} == {0.0, 0.5, 1.0}
    assert {one.likelihood for one in all_of_them} == {"gaussian", *LIKELIHOODS}
    public = [getattr(weft, name) for name in weft.__all__]
    own = {one for one in public if isinstance(one, type) and issubclass(one, weft.Likelihood)} - {weft.Likelihood}
    assert {type(make()) for make in LIKELIHOODS.values()} == own - {weft.Gaussian}
