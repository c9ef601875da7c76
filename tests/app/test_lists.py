"""Every list of samples: its rows, their order and their numbers, against loops over ranks and embeddings."""

import numpy as np
import pytest

from app.components import table as tables
from app.views.overview import CHANGED
from coder_core.api import open_run
from coder_core.api.data_quality import LEVELS, caption_table, mismatches
from tests.support.pages import numbers

WAYS = {"text": "t2i", "image": "i2t"}
UNITS = {"text": "captions", "image": "images"}
OTHER = {"text": "image", "image": "text"}
HITS_AT = 5


class Scores:
    """Scores of one run in one direction, and everything that its lists show, computed from them alone."""

    def __init__(self, run, modality):
        images, texts = (np.asarray(side, np.float64) for side in run.embeddings("dev"))
        match = np.arange(len(images))[:, None] == run.image_of_text("dev")[None, :]
        self.scores = images @ texts.T
        self.match = match
        if modality == "text":
            self.scores = self.scores.T
            self.match = match.T
        self.best = np.where(self.match, self.scores, -2).max(1)
        self.rival = np.where(self.match, -2, self.scores).max(1)
        self.rank = 1 + (~self.match & (self.scores >= self.best[:, None])).sum(1)
        self.first = np.argsort(-self.scores, 1)

    def counts(self, k):
        """Return how many queries have each candidate among their first k, and how many of them wrongly."""
        found = np.zeros(self.scores.shape, int)
        np.put_along_axis(found, self.first[:, :k], 1, 1)
        return found.sum(0), (found * ~self.match).sum(0)

    def spreads(self):
        """Return SD, entropy and diversity of every query, by loops over its negatives."""
        negatives = [row[~own] for row, own in zip(self.scores, self.match, strict=True)]
        deviation = np.array([row.std() for row in negatives])
        shares = [np.exp(row) / np.exp(row).sum() for row in negatives]
        entropy = np.array([-(share * np.log2(share)).sum() for share in shares])
        raw = 1 + np.exp(-0.1 / deviation)
        return deviation, entropy, raw / raw.max()


def by(key, rows):
    """Sort rows by a key, keeping the order of equal ones; every row begins with the number of its sample."""
    return sorted(rows, key=key)


def ranked(kept):
    """Return the list of one run's queries with these ranks, the worst first."""

    def rows(last, first):
        return [(q, f"{r:,d}") for q, r in by(lambda row: -row[1], enumerate(last.rank)) if kept(r)]

    return rows


def changed(kept):
    """Return the list of queries with these ranks in both runs, the largest change first."""

    def rows(last, first):
        pairs = [(q, a, b) for q, (a, b) in enumerate(zip(first.rank, last.rank, strict=True)) if kept(a, b)]
        pairs = by(lambda pair: -abs(pair[1] - pair[2]), pairs)
        return [(q, f"{a:,d}", f"{b:,d}", f"{a - b:+,d}") for q, a, b in pairs]

    return rows


def margins(missed):
    """Return the list of missed queries, or of hits, the smallest margin first."""

    def rows(last, first):
        of_runs = [run.best - run.rival for run in (last, first)]
        queries = [q for q, rank in enumerate(last.rank) if (rank > 1) == missed]
        queries = by(lambda q: abs(of_runs[0][q]), queries)
        return [(q, f"{of_runs[0][q]:+.4f}", f"{last.rank[q]:,d}", f"{of_runs[1][q]:+.4f}") for q in queries]

    return rows


def hubs(k):
    def rows(last, first):
        count, wrong = last.counts(k)
        before, _ = first.counts(k)
        order = by(lambda hub: -count[hub], range(len(count)))
        return [(hub, f"{count[hub]:,d}", f"{wrong[hub]:,d}", f"{before[hub]:,d}") for hub in order]

    return rows


def queries_of_the_hub(k):
    """Return the queries that have the opened hub, the largest of the first ten results, among their first k wrongly;
    those that rank it highest first."""

    def rows(last, first):
        hub = int(last.counts(10)[0].argmax())
        places = [(q, 1 + order.tolist().index(hub)) for q, order in enumerate(last.first)]
        wrong = [(q, place) for q, place in places if place <= k and not last.match[q, hub]]
        return [(q, f"{place:,d}") for q, place in by(lambda row: row[1], wrong)]

    return rows


def anchors(last, first):
    """Return the rows of the anchors of two runs, of two runs by the change of percentile, and of the last run alone."""
    deviation, entropy, diversity = last.spreads()
    places = [
        100 * spread.argsort().argsort() / (len(spread) - 1) for spread in (first.spreads()[0], deviation)
    ]
    change = places[1] - places[0]
    order = by(lambda q: deviation[q], range(len(deviation)))
    of_both = {q: (f"{places[1][q]:.1f}", f"{last.rank[q]:,d}", f"{first.rank[q]:,d}") for q in order}
    measures = {q: tuple(f"{of[q]:.4f}" for of in (diversity, deviation, entropy)) for q in order}
    two = [(q, *of_both[q], measures[q][0]) for q in order]
    fell = [(q, *of_both[q], f"{change[q]:+.1f}") for q in by(lambda q: change[q], sorted(order))]
    alone = [(q, *of_both[q][:2], *measures[q]) for q in order]
    return two, fell, alone


def hit(rank):
    return rank <= HITS_AT


def missed(rank):
    return rank > HITS_AT


ONE = {"versus": "—"}
AT = {"at": str(HITS_AT)}
LISTS = {
    "missed queries": (ONE, [AT, {"answer": "missed"}], ranked(missed)),
    "hits": (ONE, [AT, {"answer": "found"}], ranked(hit)),
    "all queries": (ONE, [AT, {"answer": "all"}], ranked(lambda rank: True)),
    "fixed": ({}, [AT, {"outcome": "fixed"}], changed(lambda a, b: missed(a) and hit(b))),
    "broken": ({}, [AT, {"outcome": "broken"}], changed(lambda a, b: hit(a) and missed(b))),
    "both wrong": ({}, [AT, {"outcome": "both wrong"}], changed(lambda a, b: missed(a) and missed(b))),
    "both right": ({}, [AT, {"outcome": "both right"}], changed(lambda a, b: hit(a) and hit(b))),
    "just missed": ({}, [{"look": "near"}, {"calls": "lost"}], margins(missed=True)),
    "just hit": ({}, [{"look": "near"}, {"calls": "held"}], margins(missed=False)),
    "queries of a hub": ({}, [{"look": "hubs"}], queries_of_the_hub(10)),
    "queries of a hub, first 5": ({}, [{"look": "hubs"}, {"k": "5"}], queries_of_the_hub(5)),
}
HUBS = {
    "hubs": ({}, [{"look": "hubs"}], hubs(10)),
    "hubs at 1": ({}, [{"look": "hubs"}, {"k": "1"}], hubs(1)),
}


@pytest.fixture(scope="module")
def both(roots):
    """The run in question and its baseline."""
    return [open_run(roots["two"] / name) for name in ("demo", "demo-baseline")]


def assert_shows(app, modality, rows):
    """Assert that the one table of these samples shows the rows: number and cells; its page has the opened one."""
    [table] = [table for table in app.tables() if table["label"] == UNITS[modality]]
    start = tables.PAGE * table["page"]
    assert rows_of(table) == rows[start : start + tables.PAGE]


def rows_of(table):
    return [(int(row["sample"]["name"].split()[-1]), *row["cells"]) for row in table["rows"]]


@pytest.mark.parametrize("modality", WAYS)
@pytest.mark.parametrize("name", [*LISTS, *HUBS])
def test_a_list_shows_the_rows_that_follow_from_the_embeddings(roots, both, opened, name, modality):
    runs, steps, expected = (LISTS | HUBS)[name]
    last, first = (Scores(run, modality) for run in both)
    query = {"run": "demo", **runs} if runs else {}
    app = opened(roots["two"], "retrieval", **query).change(direction=modality)
    for step in steps:
        app.change(**step)
    rows = expected(last, first)
    if not rows:
        assert UNITS[modality] not in [table["label"] for table in app.tables()]
        return
    assert_shows(app, OTHER[modality] if name in HUBS else modality, rows)


@pytest.mark.parametrize("modality", WAYS)
def test_anchors_and_recall_by_tenth_follow_from_the_embeddings(roots, both, opened, modality):
    last, first = (Scores(run, modality) for run in both)
    two, fell, alone = anchors(last, first)
    app = opened(roots["two"], "diversity", run="demo", versus="—").change(anchors=modality)
    assert_shows(app, modality, alone)
    app = opened(roots["two"], "diversity").change(anchors=modality, ranked="fell")
    assert_shows(app, modality, fell)
    assert_shows(app.change(ranked="second"), modality, two)
    [figure] = [figure for figure in app.figures() if "tenths" in str(figure["layout"]["xaxis"])]
    for run, trace in zip((first, last), figure["data"], strict=True):
        order = np.argsort(run.spreads()[0], kind="stable")
        hits = [100 * (run.rank[part] <= 10).mean() for part in np.array_split(order, 10)]
        assert numbers(trace["y"]) == pytest.approx(hits)
    if modality == "text":
        assert {10, 11} <= {*first.rank, *last.rank}  # an error of one would be seen


def test_fixed_and_broken_captions_of_the_overview_follow_from_the_embeddings(roots, both, opened):
    last, first = (Scores(run, "text") for run in both)
    shown = [
        table for table in opened(roots["two"], "overview").tables() if table["label"] == "captions shown"
    ]
    lists = [changed(lambda a, b: a > 1 and b == 1), changed(lambda a, b: a == 1 and b > 1)]
    rows = [[row[:3] for row in expected(last, first)] for expected in lists]
    assert [rows_of(table) for table in shown] == [part[:CHANGED] for part in rows if part]
    assert any(rows)


def test_lists_of_the_data_page_follow_from_the_api(roots, both, opened):
    rank = Scores(both[0], "text").rank
    rows = []
    for pair in mismatches(both[0], "dev").to_dict("records"):
        numbers = (f"{pair['score']:.1f}", f"{pair['random']:.0f} %", pair["level"])
        rows.append((pair["caption"], *numbers, f"{rank[pair['caption']]:,d}"))
    app = opened(roots["two"], "data", run="demo", versus="—")
    assert_shows(app, "text", rows)
    assert {row[3] for row in rows} <= {*LEVELS}
    words = caption_table(both[0].captions("dev")).to_dict("records")
    _, _, diversity = Scores(both[0], "text").spreads()
    rows = [
        (c["caption"], f"{c['content']:,d}", f"{c['words']:,d}", f"{diversity[c['caption']]:.4f}")
        for c in words
    ]
    app.change(list="little")
    assert_shows(app, "text", by(lambda row: (int(row[1]), int(row[2])), rows))
