# SPDX-License-Identifier: MIT
import gc

import pytest

from weft.collecting import without_collecting


@pytest.fixture
def collections():
    """How often garbage was looked for."""
    seen = []

    def count(phase, info):
        if phase == "start":
            seen.append(info["generation"])

    threshold = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    gc.collect()
    gc.callbacks.append(count)
    yield seen
    gc.callbacks.remove(count)
    gc.set_threshold(*threshold)


def test_nobody_looks_for_garbage_meanwhile_nor_through_what_was_made(collections):
    before = len(gc.get_objects(generation=2))
    with without_collecting():
        kept = [[number] for number in range(50_000)]
        assert collections == []
    assert gc.isenabled()
    assert len(gc.get_objects(generation=2)) > before + 49_000
    assert len(kept) == 50_000
    kept.extend([number] for number in range(50_000))
    assert 0 in collections


def test_who_had_it_off_or_objects_set_apart_keeps_that(collections):
    gc.freeze()
    gc.disable()
    try:
        with pytest.raises(RuntimeError, match="inside"), without_collecting():
            raise RuntimeError("inside")
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.enable()
        gc.unfreeze()
