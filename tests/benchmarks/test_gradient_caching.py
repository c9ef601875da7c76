"""The benchmark of a batch in pieces times a step that trains both towers."""

from benchmarks import gradient_caching


def test_a_step_in_pieces_is_timed_beside_the_whole(tmp_path, monkeypatch):
    for name, value in {"PAIRS": 8, "WIDTH": 32, "SIZE": 32}.items():
        monkeypatch.setattr(gradient_caching, name, value)
    [line] = gradient_caching.lines(tmp_path, rounds=1, warm_up=0)
    assert line.processor > 0
    assert "4 pieces of 2" in line.name
