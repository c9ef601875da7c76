"""Training on a device that is not the CPU: nothing is left behind on the CPU, and the numbers are the CPU's."""

from typing import Any

import pytest

from tests.support.driving import told_by


@pytest.fixture(scope="module")
def actual(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return told_by("device_worker", tmp_path_factory.mktemp("devices") / "runs", timeout=600)


def numbers(events: Any, path: str = "") -> dict[str, float]:
    """Every number of nested lists and tables by where it stands."""
    if isinstance(events, dict):
        return {
            key: value for name in events for key, value in numbers(events[name], f"{path}.{name}").items()
        }
    if isinstance(events, list):
        return {
            key: value
            for i, entry in enumerate(events)
            for key, value in numbers(entry, f"{path}[{i}]").items()
        }
    return {path: float(events)} if isinstance(events, int | float) else {}


@pytest.mark.slow
@pytest.mark.timeout(620)
def test_every_kind_of_run_is_the_same_on_another_device(actual: dict[str, Any]) -> None:
    """Stopped on the way and continued there, never stopped here: losses, gradients, diversity, prototypes, metrics."""
    runs = {name: events for name, events in actual.items() if name != "mixed"}
    assert len(runs) == 11
    for name, (here, there) in runs.items():
        expected = numbers(here)
        assert len(expected) > 20, name
        assert numbers(there) == pytest.approx(expected, rel=1e-3, abs=1e-3), name


@pytest.mark.slow
@pytest.mark.timeout(620)
def test_the_device_refuses_what_a_gpu_refuses(actual: dict[str, Any]) -> None:
    assert actual["mixed"] == "aten::add: a CPU tensor of shape (2,) beside one of the device 'second'"
