# SPDX-License-Identifier: MIT
"""Double precision, strict promotion and shape checks for every test; where the shared data are."""

import gc
import os
import pathlib
import signal
import time
from collections.abc import Iterator

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Tests compile much and run it a few times: compiled like this a program takes a fourth of the time, and is right but for other rounding.
QUICKLY = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
# Draws of 0.1 are those of its rounding: a run of these tests alone compiles as users do.
AS_USERS_DO = pathlib.Path("tests", "kept")

# Of a million objects that imports leave, few go before the end; looking through them as often as Python does took a tenth of the time.
gc.set_threshold(50_000, *gc.get_threshold()[1:])

# What one worker has compiled, the other and the next run find again.
CACHE = pathlib.Path(__file__).resolve().parents[1] / ".pytest_cache" / "jax"
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)

# Every shape annotation in the packages is checked while the tests run; only an old jaxtyping cannot (see `make lowest`).
if os.environ.get("WEFT_TESTS_CHECK_SHAPES") != "no":
    install_import_hook(["weft", "weft_experiments"], "beartype.beartype")

# Each compiled program maps memory anew, and Linux lets a process have 65,530 maps: beyond, XLA aborts.
MOST_MAPS = 30_000
MAPS = pathlib.Path("/proc/self/maps")

SHARED_DATA = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_configure(config: pytest.Config) -> None:
    """By the environment, so that processes started by tests have the same bits; before JAX first looks there."""
    # Shells have what they start in the background ignore Ctrl-C, and Python then does; tests of it would wait in vain.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    given = os.environ.get("XLA_FLAGS", "")
    is_alone = all(str(AS_USERS_DO) in argument for argument in config.args)
    if not is_alone and QUICKLY not in given:
        os.environ["XLA_FLAGS"] = f"{given} {QUICKLY}".strip()


@pytest.fixture(scope="session")
def counted() -> list[float]:
    """When maps were counted last."""
    return [time.monotonic()]


@pytest.fixture(autouse=True)
def few_compiled_programs(counted: list[float]) -> Iterator[None]:
    """Programs compiled by earlier tests are let go before there are too many: the pages of the site alone make tens of thousands.

    Counting takes a hundredth of a second where there are many, so it is not done after each short test.
    """
    yield
    if MAPS.exists() and time.monotonic() - counted[0] > 2:
        if MAPS.read_bytes().count(b"\n") > MOST_MAPS:
            jax.clear_caches()
            gc.collect()
        counted[0] = time.monotonic()


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """The folder of real data sets; a test that asks for it is skipped where there is none."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the shared data folder is not beside the project; put it at ../shared/data to run this test")
    return SHARED_DATA


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """CI has twenty minutes; what takes long and was seen green is run before a release."""
    if os.environ.get("WEFT_LONG"):
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="takes long: make long"))
