"""A run's matrix from choosing to table: both directions, blocks, labels, one cell opened."""

from __future__ import annotations

import numpy as np
import pytest

from coder_core.api import Loss, Run, open_run
from coder_core.api.sides import Direction
from coder_core.api.similarity import matrices, open_pair
from coder_core.api.similarity.samples import choose_samples
from tests.support.run_folders import write_run

DIRECTIONS: tuple[Direction, ...] = ("i2t", "t2i")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(write_run(tmp_path_factory.mktemp("matrices") / "runs", "demo", images=30, noise=2.0))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("source", ["seed", "split"])
def test_the_cells_are_the_similarities_of_the_run(run: Run, source: str, direction: Direction) -> None:
    batch = choose_samples(run, "dev", source, size=12)  # type: ignore[arg-type]
    batch = matrices.ordered(run, "dev", batch, "diversity", direction, run.loss)
    scaled = matrices.scaled_matrix(run, "dev", batch, direction, run.loss)
    expected = run.similarity(batch.images, batch.texts, split="dev")
    np.testing.assert_allclose(scaled.similarity, expected if direction == "i2t" else expected.T, atol=1e-6)
    assert (np.diff(scaled.spread.diversity) >= 0).all()  # the most ambiguous anchor first
    rows, columns = matrices.labels(scaled, batch, direction)
    assert (len(rows), len(columns)) == scaled.similarity.shape
    assert rows[0].split()[0] == ("image" if direction == "i2t" else "caption")


def test_the_two_directions_share_s_and_differ_in_whose_diversity_scales_it(run: Run) -> None:
    batch = choose_samples(run, "dev", "seed", size=12)
    one, other = (matrices.scaled_matrix(run, "dev", batch, direction, run.loss) for direction in DIRECTIONS)
    np.testing.assert_allclose(one.similarity, other.similarity.T, atol=1e-6)
    plain = (one.exponent - one.change)[~np.isnan(one.exponent)]
    np.testing.assert_allclose(plain, (other.exponent - other.change).T[~np.isnan(one.exponent)], atol=1e-4)
    assert not np.allclose(one.exponent, other.exponent.T, equal_nan=True)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_cell_is_found_by_its_ids_and_opened(run: Run, direction: Direction) -> None:
    batch = choose_samples(run, "dev", "seed", size=12)
    scaled = matrices.scaled_matrix(run, "dev", batch, direction, run.loss)
    place = matrices.positions(batch, direction, int(batch.images[3]), int(batch.texts[7]))
    assert place == ((3, 7) if direction == "i2t" else (7, 3))
    sides = matrices.matrix_sides(run, "dev", batch, direction)
    pair = open_pair(sides, scaled.spread, scaled.loss, *place, paired=batch.paired)
    np.testing.assert_allclose(pair.similarity, scaled.similarity[place], atol=1e-6)
    missing = int(np.setdiff1d(np.arange(150), batch.texts)[0])
    assert matrices.positions(batch, direction, int(batch.images[0]), missing) is None


def test_a_block_opens_its_most_similar_negative(run: Run) -> None:
    batch = choose_samples(run, "dev", "split")
    sides = matrices.matrix_sides(run, "dev", batch, "i2t")
    scaled = matrices.scaled_matrix(run, "dev", batch, "i2t", run.loss, cells=7)
    assert (scaled.row_step, scaled.column_step) == (5, 22)
    anchor, candidate = matrices.hardest_in_cell(sides, scaled, 1, 2)
    assert 5 <= anchor < 10
    assert 44 <= candidate < 66
    part = run.similarity(np.arange(5, 10), np.arange(44, 66), split="dev")
    part[np.arange(5, 10)[:, None] == run.image_of_text("dev")[None, 44:66]] = -1
    np.testing.assert_allclose(
        run.similarity([anchor], [candidate], split="dev")[0, 0], part.max(), atol=1e-6
    )
    rows, columns = matrices.labels(scaled, batch, "i2t")
    assert rows[1] == "images 5 … 9 (5)"
    assert columns[-1] == "captions 132 … 149 (18)"
    sharp = matrices.scaled_matrix(run, "dev", batch, "i2t", run.loss)
    assert matrices.hardest_in_cell(sides, sharp, 3, 9) == (3, 9)


@pytest.mark.parametrize("cells", [7, 256])
def test_the_table_holds_every_cell_with_its_ids(run: Run, cells: int) -> None:
    batch = choose_samples(run, "dev", "seed", size=12)
    scaled = matrices.scaled_matrix(run, "dev", batch, "t2i", Loss(), cells=cells)
    table = matrices.matrix_table(scaled, batch, "t2i")
    assert len(table) == scaled.similarity.size
    assert list(table)[:2] == (["first caption", "first image"] if cells == 7 else ["caption", "image"])
    row = table.iloc[scaled.similarity.shape[1] + 2]
    assert row.iloc[0] == batch.texts[scaled.row_step]
    assert row.iloc[1] == batch.images[2 * scaled.column_step]
    np.testing.assert_allclose(row["similarity"], scaled.similarity[1, 2])
    np.testing.assert_array_equal(table["share"].isna(), np.isnan(scaled.share).ravel())


def test_entropy_is_a_measure_too(run: Run) -> None:
    batch = choose_samples(run, "dev", "seed", size=12)
    std, entropy = (
        matrices.scaled_matrix(run, "dev", batch, "i2t", Loss(function=function)).spread.spread
        for function in ("std", "entropy")
    )
    assert (entropy > 3).all()
    assert (std < 1).all()
