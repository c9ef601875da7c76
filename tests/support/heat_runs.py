"""Runs with heat maps of the regions that words read: trained on a tiny CLIP's patches, and embedded by that CLIP."""

from coder_core.embed import main as embed
from coder_core.features import main as features
from coder_core.training.launch import start_run
from tests.support.picture_folders import LAYOUTS
from tests.support.tiny_runs import STILL, quiet, tiny_config
from tests.support.tiny_towers import write_tiny_clip


def write_heat_runs(folder):
    """Write data/, features/, clip/ (the model) and runs/ with "plain", "words" (interaction scorer) and "clip"."""
    write_tiny_clip(folder / "clip")
    LAYOUTS["flickr8k"](folder / "data")
    out = folder / "features"
    model = f"--model={folder / 'clip'}"
    assert features([str(folder / "data"), f"--out={out}", model, "--workers=0", "--grid=2"]) == 0
    train(folder, out, "plain")
    train(folder, out, "words", loss="btr-hardest", scorer="interaction", interaction_size=8)
    flags = [f"--root={folder / 'runs'}", "--name=clip", "--split=dev", "--workers=0", "--prompt=see {}"]
    assert embed(["pictures", str(folder / "data"), model, *flags]) == 0
    return folder


def train(folder, data, name, **values):
    """Train one epoch on the region features in `data` of the pictures in `folder`."""
    pictures = str(folder / "data" / "Flicker8k_Dataset")
    small = {"bank_size": 0, "batch_size": 4, "epochs": 1, **STILL, "pictures": pictures}
    start_run(tiny_config(data, name, **small | values), root=folder / "runs", console=quiet())
