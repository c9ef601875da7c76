"""Training on a device that is not the CPU: nothing is left behind on the CPU, and the numbers are the CPU's."""

import pytest

from tests.support.processes import reported_by


def numbers(events, path=""):
    """Every number of nested lists and tables by its position."""
    if isinstance(events, dict | list):
        entries = events.items() if isinstance(events, dict) else enumerate(events)
        nested = [numbers(entry, f"{path}.{key}") for key, entry in entries]
        return {key: value for part in nested for key, value in part.items()}
    return {path: float(events)} if isinstance(events, int | float) else {}


@pytest.mark.slow
@pytest.mark.timeout(620)
def test_every_kind_of_run_is_the_same_on_another_device(tmp_path):
    """Stopped and continued there, never stopped here: losses, gradients, diversity, prototypes, metrics. The device
    refuses what a GPU refuses."""
    runs = reported_by("device_worker", tmp_path / "runs", timeout=600)
    assert runs.pop("mixed") == "aten::add: a CPU tensor of shape (2,) beside one of the device 'second'"
    assert len(runs) == 7
    for name, (on_cpu, on_second) in runs.items():
        expected = numbers(on_cpu)
        assert len(expected) > 20, name
        assert numbers(on_second) == pytest.approx(expected, rel=1e-3, abs=1e-3), name
