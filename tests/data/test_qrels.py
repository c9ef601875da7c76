"""What a file of judgements (qrels) says about documents that a split does not have."""

import numpy as np

from coder_core.data.qrels import SampleIds, read_qrels

IDS = SampleIds(["a.jpg", "b.jpg"], np.array([0, 1]))


def test_relevant_documents_that_the_split_lacks_are_counted(tmp_path):
    """Neither an irrelevant one, nor a document in the first row, is missing."""
    lines = ["a.jpg#0 0 a.jpg 1", "a.jpg#0 0 gone.jpg 2", "a.jpg#0 0 lost.jpg 0", "b.jpg 0 gone.jpg#3 1"]
    (tmp_path / "qrels.txt").write_text("".join(f"{line}\n" for line in lines))
    qrels = read_qrels(tmp_path / "qrels.txt", IDS, "a.jpg#0")
    assert "2 relevant documents are not in this split" in qrels.fact
    assert qrels.pairs["t2i"].candidates.tolist() == [0, -1, -1]
    assert qrels.pairs["t2i"].grades.tolist() == [1, 2, 0]
    assert (qrels.pairs["i2t"].queries.tolist(), qrels.pairs["i2t"].candidates.tolist()) == ([1], [-1])
