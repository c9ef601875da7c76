"""Rows become configurations and command lines; a user's grid is read or refused."""

from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest

from coder_core.ablation.arguments import read_ablation
from coder_core.ablation.papers import BY_PAPER, TABLES
from coder_core.ablation.planning import Basis, plan, planned_run
from coder_core.ablation.rows import AblationTable, Row, read_grid
from coder_core.config.checks import problems
from coder_core.config.presets import PRESETS
from coder_core.config.schema import RUN_NAME, settings
from coder_core.queue.running import RunProcess, ready
from tests.support.precomp_folders import assert_refused

FULL = "coder-f30k-bigru"
SMALL = "coder-flickr8k"
COMPONENTS = [("btr-hardest", 0, 0, 0), ("dcl", 0, 0, 0)]
COMPONENTS += [("dcl", 4096, *others) for others in ((0, 0), (400, 0), (400, 10_000))]
DIVERSITY = [("dcl-i", 0, 1.0, True), ("dcl", 0, 1.0, True), ("dcl", 4096, 0.0, True)]
DIVERSITY += [(loss, 4096, 1.0, bank) for loss, bank in (("dcl-i", True), ("dcl", False), ("dcl", True))]


def built(table, preset=FULL):
    """Return every row's configuration; the preset coder-flickr8k gets a bank here, which it lacks."""
    rows = TABLES[table].rows
    flags = {"bank-size": 1024} if preset == SMALL else {}
    basis = Basis(preset, flags, Path())
    return {row.name: planned_run(TABLES[table], row, 3, basis).config for row in rows}


def errors(config):
    return [fault for fault in problems(config) if fault.severity == "error"]


@pytest.mark.parametrize("table", TABLES)
def test_every_row_of_every_table_is_a_valid_run(table):
    for preset in (FULL, "coder-f30k-bert", SMALL, "coder-coco-bert"):
        rows = built(table, preset)
        assert [name for name, config in rows.items() if errors(config) or not RUN_NAME.fullmatch(name)] == []
        assert {config.training.seed for config in rows.values()} == {3}
    same = len(rows) - len({repr(replace(config, name="")) for config in rows.values()})
    assert same == (table == "banks")  # the preset's bank is a row of the sizes and of the momenta
    assert TABLES[table].reference in rows


def test_boosting_tables_start_from_the_preset_made_for_boosting():
    """It begins to boost after two epochs; branches that train together (online) begin at once."""
    tables = [built(table.name, "flickr8k-boosted") for table in BY_PAPER["boosting"]]
    for config in (config for rows in tables for config in rows.values()):
        assert errors(config) == []
        late = config.boosting.boosting != "none" and config.boosting.boosting_scenario != "online"
        assert not late or config.boosting.boosting_start_epoch == 2.0


@pytest.mark.parametrize(
    ("table", "keys", "rows"),
    [
        ("components", "loss bank_size concepts prototypes", COMPONENTS),
        ("diversity-configuration", "loss bank_size weight_memory diversity_from_bank", DIVERSITY),
        ("clusters", "prototypes", [(5_000,), (10_000,), (15_000,), (20_000,)]),
    ],
)
def test_rows_match_the_papers(table, keys, rows):
    """CODER's table 2: BTR; DCL; + M-DCL; + the concept branch; + PGC. Table 3: IE, + EE, + MB without and with the
    bank loss. Clusters are multiples of the preset's."""
    configs = built(table).values()
    assert [tuple(settings()[key].of(config) for key in keys.split()) for config in configs] == rows
    assert TABLES["components"].rows[4].reported == (83.2, 96.5, 98.0, 63.1, 87.1, 93.0)


def test_overrides_apply_on_top_of_the_preset_tuned_for_a_rows_loss():
    table = TABLES["components"]
    overrides = {"epochs": 2, "word-dropout": 0.0}
    run = planned_run(table, table.rows[0], 0, Basis(SMALL, overrides, Path()))
    config = run.config
    assert run.preset == "flickr8k-baseline"
    assert config.objective.warmup_epochs == PRESETS["flickr8k-baseline"].config.objective.warmup_epochs
    assert (config.training.epochs, config.model.word_dropout) == (2, 0.0)
    run = planned_run(table, table.rows[1], 0, Basis(SMALL, {"bank-size": 2048}, Path()))
    assert (run.preset, run.config.memory.bank_size) == (SMALL, 0)  # the row's changes come last


def test_noise_table_crosses_losses_shares_and_cleanings_and_shares_scorers(tmp_path):
    rows = {row.name: row for row in TABLES["noise"].rows}
    assert (len(rows), "coder-0-oracle" in rows, "coder-20-oracle" in rows) == (9 * (4 * 7 - 1), False, True)
    twice = rows["coder-40-twice"]
    assert twice.runs() == {"clean-scorers": "infonce-40-cleaned"}
    assert (twice.x, twice.reference) == (40, "coder-40-as-is")
    assert rows["infonce-40-cleaned"].runs() == {}
    basis = Basis(SMALL, {}, tmp_path)
    assert_refused("infonce-40-cleaned", plan, TABLES["noise"], [twice], [1], basis)
    first, second = plan(TABLES["noise"], [rows["infonce-40-cleaned"], twice], [1], basis)
    assert second.reads == (first.folder,)
    assert second.config.cleaning.clean_scorers == str(first.folder)
    assert (second.config.cleaning.clean_rounds, second.config.data.wrong_captions) == (2, 0.4)


def test_an_override_that_every_row_replaces_is_refused(tmp_path):
    table = TABLES["components"]
    multiples = TABLES["clusters"]

    def planned(table, rows, **overrides):
        flags = {name.replace("_", "-"): value for name, value in overrides.items()}
        return plan(table, rows, [0], Basis(SMALL, flags, tmp_path))

    message = r"--loss btr-sum: .*--loss"
    assert_refused(message, planned, table, table.rows[:2], loss="btr-sum", epochs=2)
    # the second row has no bank, the third has the one given here
    runs = planned(table, table.rows[1:3], bank_size=512)
    assert [run.config.memory.bank_size for run in runs] == [0, 512]
    (half,) = planned(multiples, multiples.rows[:1], prototypes=50)
    assert half.config.memory.prototypes == 25


def test_a_row_whose_preset_lacks_a_needed_part_names_the_flag():
    table = TABLES["components"]
    missing = r"5-coder: .* concepts and prototypes, .* flickr8k.* --concepts N and --prototypes N"

    def configure(row, **overrides):
        flags = {name.replace("_", "-"): value for name, value in overrides.items()}
        return planned_run(table, row, 0, Basis("flickr8k", flags, Path()))

    assert_refused(missing, configure, table.rows[4], bank_size=512)
    assert_refused(r"3-m-dcl: .* bank-size, .* --bank-size N", configure, table.rows[2])
    configure(table.rows[4], bank_size=512, concepts=40, prototypes=100)


def test_explicit_flags_count_even_if_they_equal_the_preset():
    arguments = ["--epochs=6", "--no-diversity-gradient", "--bank_size", "512", "--seeds", "0", "1"]
    parsed = read_ablation([*arguments, f"--preset={SMALL}"])
    flags = {"epochs": 6, "diversity-gradient": False, "bank-size": 512}
    assert parsed.overrides == flags
    assert parsed.seeds == (0, 1)
    assert_refused("--seeds 0 1 0", read_ablation, ["--seeds", "0", "1", "0"])


def test_rows_are_chosen_by_name_or_number_in_the_tables_order():
    table = TABLES["objectives"]
    assert [row.name for row in table.choose(["dcl", "1"])] == ["btr-sum", "dcl"]
    assert table.choose([]) == table.rows


def grid(folder, text):
    path = folder / "mine.toml"
    path.write_text(text, "utf-8")
    return read_grid(path)


def test_a_grid_file_lists_rows_or_values_to_cross(tmp_path):
    text = 'about = "vectors"\nreference = "b"\n[[rows]]\nname = "a"\nword-vectors = "random"\n'
    text += '[[rows]]\nname = "b"\nabout = "learned ones"\nword-vectors = "learned"\n'
    rows = Row("a", "", {"word-vectors": "random"}), Row("b", "learned ones", {"word-vectors": "learned"})
    assert grid(tmp_path, text) == AblationTable("mine", "vectors", rows, "b")
    rows = grid(tmp_path, "[grid]\ntemperature = [0.05, 0.1]\nbank-size = [0, 512]\n").rows
    crossed = [{"temperature": t, "bank-size": b} for t in (0.05, 0.1) for b in (0, 512)]
    assert [row.changes for row in rows] == crossed
    assert rows[0].name == "temperature-0.05-bank-size-0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows = 3", r"mine.toml rows: .*\[\[rows\]\]"),
        ("", r"mine.toml: .*\[grid\]"),
        ("[grid]\ntemperature = 0.1", "mine.toml grid: .*0.05, 0.1"),
        ("[grid]\ntemprature = [0.1]", "temprature: .*setting"),
        ("[grid]\ntemperature = ['hot']", "temperature: is 'hot'.*number"),
        ('[[rows]]\nname = "a"\n[[rows]]\nname = "a"', "row 'a': .*repeated"),
        ('[[rows]]\nname = "../a"', "row '../a': .*200"),
        ('other = 1\n[[rows]]\nname = "a"', "key other: "),
        ('reference = "z"\n[[rows]]\nname = "a"', "reference: is 'z'; expected one of a"),
        ("[[rows", "mine.toml: .*TOML"),
        ("[grid]\nseed = [0, 1, 2]", "grid, seed: .*--seeds 0 1 2"),
        ('[[rows]]\nname = "a"\nseed = 1', "row a, seed: .*--seeds 0 1 2"),
        ("[grid]\nlearning-rate = [0.1]\nlearning_rate = [0.2]", "grid, learning-rate and learning_rate: "),
    ],
)
def test_an_invalid_grid_is_refused(tmp_path, text, message):
    assert_refused(message, grid, tmp_path, text)


def test_sample_weight_rows_match_the_paper():
    """Table 2 of the complementary-samples paper; COMBINED-VAL chooses from nine pairs of shares."""
    configs = built("sample-weights")
    plain = {(c.objective.loss, c.memory.bank_size, c.model.concepts) for c in configs.values()}
    assert plain == {("npairs-hinge", 0, 0)}
    rows = {name: config.weighting for name, config in configs.items()}
    combined = [row for row in rows.values() if row.sample_weights == "combined"]
    shares = {(row.diversity_share, row.discrepancy_share) for row in combined}
    assert shares == {(1, 1), *((1, n) for n in range(2, 6)), *((n, 1) for n in range(2, 6))}
    assert [rows[name].sample_weights for name in ("hal", "mithun", "amrani")] == ["hal", "mithun", "amrani"]
    assert (rows["thomas"].sample_weights, rows["thomas"].within_image) == ("none", 0.1)
    reported = {row.name: row.reported for row in TABLES["sample-weights"].rows}
    assert reported["combined-1-4"] == (70.56, None, None, 70.13, None, None)
    recipe = configs["recipe-combined-1-4"].training
    assert (recipe.batch_size, recipe.learning_rate, recipe.schedule) == (32, 1e-4, "plateau")
    assert rows["recipe-combined-1-4"].weight_scale * recipe.batch_size == 196  # λ of table 1


def test_a_student_row_uses_the_teacher_with_its_seed(tmp_path):
    """The table itself trains the teacher of an offline row, for every seed."""
    table = TABLES["boosting-offline"]
    (teacher, student) = ("teacher-half", "am-offline-half")
    basis = Basis("flickr8k-boosted", {"data": "x"}, tmp_path)
    runs = {run.name: run for run in plan(table, table.choose([teacher, student]), (0, 4), basis)}
    for seed in (0, 4):
        folder = tmp_path / f"{teacher}-s{seed}"
        assert runs[f"{student}-s{seed}"].config.boosting.boosting_teacher == str(folder)
        assert runs[f"{student}-s{seed}"].reads == (folder,)
        assert runs[f"{teacher}-s{seed}"].reads == ()
    waiting = [RunProcess(runs[f"{name}-s0"], deque()) for name in (student, teacher)]
    assert ready(waiting, []) == waiting[1:]
    assert ready(waiting[:1], waiting[1:]) == []  # while the teacher trains
    assert ready(waiting[:1], []) == waiting[:1]
    assert_refused(
        f"{teacher}-s0, .* {teacher} to --rows", plan, table, table.choose([student]), (0, 4), basis
    )
