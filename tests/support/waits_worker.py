"""Train tiny models on the simulated second device and print, as one JSON object, where a step waits for it."""

import json
from collections import Counter
from pathlib import Path

from coder_core.training.prepare import prepare
from coder_core.training.trainer import Trainer
from tests.support.second_device import register, waits
from tests.support.tiny_runs import STILL, quiet, tiny_config, write_tiny_data

WATCHED = 6  # the third step of the second epoch, whose line is not written
KINDS = {
    "triplet": {"loss": "btr-hardest"},
    "infonce": {"loss": "infonce"},
    "coder": {"loss": "dcl", "bank_size": 13, "concepts": 6, "weight_prototypes": 0.1, "prototypes": 5},
}


class Watched(Trainer):
    """Trainer that records where a step waits for the device."""

    def _step(self, batch):
        if self.position.step != WATCHED:
            super()._step(batch)
            return
        with waits() as found:
            super()._step(batch)
        self.found = dict(Counter(found))


def main(folder):
    folder = Path(folder)
    device = register()
    data = write_tiny_data(folder / "data", images=16)
    results = {}
    for name, values in KINDS.items():
        usual = STILL | {"epochs": 2, "bank_size": 0, "precision": "float32", "twin_precision": "float32"}
        config = tiny_config(data, **usual | values)
        (folder / name).mkdir()
        trainer = Watched(config, folder / name, prepare(config), device, quiet())
        assert trainer.run() == "finished"
        results[name] = trainer.found
    print(json.dumps(results))
