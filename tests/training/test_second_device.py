"""Training on a device that is not the CPU: nothing is left behind on the CPU, and the numbers are the CPU's."""

import pandas as pd
import pytest

from tests.support.processes import reported_by


@pytest.mark.slow
@pytest.mark.timeout(620)
def test_every_kind_of_run_is_the_same_on_another_device(tmp_path):
    """Stopped and continued there, never stopped here: losses, gradients, diversity, prototypes, metrics. The device
    refuses what a GPU refuses."""
    runs = reported_by("device_worker", tmp_path / "runs", output=tmp_path / "printed")
    assert runs.pop("mixed") == "aten::add: a CPU tensor of shape (2,) beside one of the device 'second'"
    assert len(runs) == 7
    for name, (on_cpu, on_second) in runs.items():
        expected, actual = (pd.json_normalize(history) for history in (on_cpu, on_second))
        assert expected.size > 20, name
        pd.testing.assert_frame_equal(actual, expected, rtol=1e-3, atol=1e-3, obj=name)
