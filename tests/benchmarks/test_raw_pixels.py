"""python -m benchmarks.raw_pixels in seconds: a tower learns from raw pixels, killed and resumed on the way."""

import re
from itertools import combinations

import pytest

from benchmarks.raw_pixels import chance, main
from coder_core.demo import make_demo


def test_chance_is_the_mean_over_all_orders():
    """Three images with two captions: the best of an image's two places among six, a caption's image among three."""
    pairs = list(combinations(range(6), 2))
    by_image = sum(sum(min(pair) < k for pair in pairs) / len(pairs) for k in (1, 5, 10))
    assert chance(3, 2) == pytest.approx(100 * (by_image + 1 / 3 + 1 + 1))


@pytest.mark.slow
def test_a_small_tower_and_the_text_encoder_learn_together_from_random_weights(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CODER_DEMO", str(make_demo(tmp_path / "demo", images=150)))
    short = ["--threads=1", "--epochs=4", "--kill-after=1", "--workers=0", "--bar=2"]
    assert main([f"--root={tmp_path}", *short]) == 0
    resumed = re.search(r"resumed at step (\d+)", capsys.readouterr().out)
    assert resumed is not None
    assert int(resumed[1]) > 0
