"""What a search log says about its queries and judgements (`coder_core.data.search_log`)."""

import numpy as np

from coder_core.data.search_log import read_search_log

QUERIES = ("id\ttext", "q0\ta dog", "q1\ta cat", "q2\ta bird", "q3\ta fox")
QRELS = ("q0 0 a.jpg 1", "q0 0 gone.jpg 2", "q0 0 b.jpg 0", "q1 0 b.jpg 2", "q1 0 a.jpg 1", "q2 0 lost.jpg 1")


def test_queries_judgements_and_missing_pictures_are_counted(tmp_path):
    files = [tmp_path / "queries.tsv", tmp_path / "qrels.txt"]
    for file, lines in zip(files, (QUERIES, QRELS), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines))
    log, notes = read_search_log(*files, ["a.jpg", "b.jpg"])
    assert (log.query_ids, log.texts) == (["q0", "q1"], ["a dog", "a cat"])
    assert log.image_of_text.tolist() == [0, 1], "the picture of the highest grade"
    assert sorted(log.judgements.tolist()) == [[0, -1, 2], [0, 0, 1], [0, 1, 0], [1, 0, 1], [1, 1, 2]]
    assert [name for name, _, _ in log.others] == ["q2", "q3"]
    assert log.rows.dtype == np.int64
    said = " ".join(map(str, notes))
    for fact in (
        "2 queries have a right picture",
        "5 judgments",
        "4 of them right",
        "1 pictures are not in the",
    ):
        assert fact in said, fact
