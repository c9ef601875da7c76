"""Retrieval metrics: recalls from ranks with exact ties, c-way accuracy, matching pairs against all others.

sources         sources of scores: embeddings, a matrix, or a weighted sum of several
tiles           scores of the sources, fast or exact, tile by tile
ranking         the rank of every right answer, the best candidates of every query
recall          R@K, MRR, MedR, MeanR, R@sum, five folds
graded          nDCG, MRR, MAP, recall and success for graded judgements
extended        mAP@R, R-Precision and extended R@K, with positives beyond the labels
c_way           accuracy among c options
separation      mean distance MD, distributions of similarities
bootstrap       intervals of recalls and of differences between runs
hub_correction  scores corrected for hubs
"""
