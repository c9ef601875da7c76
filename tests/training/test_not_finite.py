"""NaN and Inf in features, parameters, losses and gradients stop the run by name and never reach a save."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from coder_core.data.batches import TrainingBatches
from coder_core.runs.history import HISTORY, read_history
from coder_core.runs.load import read_config, read_vocabulary
from coder_core.runs.saves import SaveStore
from coder_core.runs.status import RunLock, read_status
from coder_core.training.launch import start_run
from coder_core.training.prepare import Inputs, prepare
from coder_core.training.stopping import NotFiniteError
from coder_core.training.trainer import Trainer
from tests.support.tiny_runs import newest_state, quiet, state_tensors, tiny_config

PER_EPOCH = 5


@pytest.fixture
def begun(data, tmp_path):
    """One epoch was trained, evaluated and saved; another is to come."""
    folder = start_run(tiny_config(data, epochs=1, schedule="constant"), tmp_path, quiet())
    config, _ = read_config(folder)
    longer = replace(config, training=replace(config.training, epochs=2, save_every=1e-6))
    return folder, longer, prepare(longer, Inputs(read_vocabulary(folder, longer)))


def fail(folder, config, prepared, *, spoil=None, value=0.0):
    """Continue, expect the stop, and see that everything saved is as it was. Returns trainer and message."""
    names = SaveStore(folder / "state", keep=2).names()
    trainer = Trainer(config, folder, prepared, torch.device("cpu"), quiet())
    with RunLock(folder):
        trainer.resume()
        if spoil:
            with torch.no_grad():
                trainer.model.get_parameter(spoil).view(-1)[0] = value
        with pytest.raises(NotFiniteError) as stopped:
            trainer.run()
    assert set(names) & set(SaveStore(folder / "state", keep=2).names())
    assert newest_state(folder).skipped == []
    assert all(tensor.isfinite().all() for tensor in state_tensors(folder).values())
    assert SaveStore(folder / "best", keep=1).names() == [str(PER_EPOCH)]
    assert (read_status(folder) or {})["state"] == "failed"
    assert read_history(folder / HISTORY)[-1]["message"] == str(stopped.value)
    return trainer, str(stopped.value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_name_step_samples_and_image(begun, value):
    """The scan of the files is bypassed: as if a disk went bad while training."""
    folder, config, prepared = begun
    step, image = 6, int(prepared.batches(6).image_ids[3])
    features = np.array(prepared.data.train.features)
    features[image] = value
    split = replace(prepared.data.train, features=features)
    drops = {"drop_regions": 0.2, "drop_words": 0.2}
    batches = TrainingBatches(split, prepared.batches.tokens, batch_size=8, seed=5, **drops)
    first_met = next(s for s in range(PER_EPOCH, 10) if image in batches(s).image_ids)
    assert first_met <= step
    data = replace(prepared.data, train=split)
    _, message = fail(folder, config, replace(prepared, data=data, batches=batches))
    assert message.startswith(f"step {first_met}: ")
    for named in ("dcl, m-dcl", f"features of image {image} ", f"image {batches(first_met).image_ids[0]}"):
        assert named in message
    assert newest_state(folder).name == str(first_met)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("regions.linear", np.nan, "step 5: .*dcl, m-dcl"),
        ("words.vectors", np.inf, "model words.vectors.weight"),
    ],
)
def test_a_parameter_is_named_and_not_saved(begun, name, value, message):
    """Infinite is the vector of a word no caption holds: no loss and no gradient shows it, but a save would carry it on."""
    assert re.search(message, fail(*begun, spoil=f"{name}.weight", value=value)[1])
    assert newest_state(begun[0]).name == "5"


def test_an_infinite_gradient_stops_before_the_optimizer(begun):
    """A hook spoils one gradient on its way back, which is named alone; the weights stay what they were."""
    folder, config, prepared = begun
    prepared.model.regions.linear.weight.register_hook(lambda gradient: gradient * float("inf"))
    named = ", ".join(map(str, prepared.batches(5).text_ids[:5].tolist()))
    trainer, message = fail(folder, config, prepared)
    assert re.match(rf"step 5: the gradient of regions\.linear\.weight is .*captions {named} ", message)
    saved = newest_state(folder)
    assert saved.name == "5"
    ours, weights = dict(trainer.model.named_parameters()), saved.tensors("model")
    assert all(torch.equal(ours[name], weights[name]) for name in ours)
    assert torch.equal(trainer.parts[0].bank.images, saved.tensors("memory")["bank.images"])
