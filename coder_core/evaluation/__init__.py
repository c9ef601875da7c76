"""Retrieval metrics: recalls from ranks with exact ties, c-way accuracy, matching pairs against all others.

sources         sources of scores: embeddings, a matrix, or a weighted sum of several
scores          checked scores of the sources, fast or exact, on any device
relevance       which candidates are right for a query, and why
ranking         the rank of every right candidate, the best candidates of every query
recall          the metrics of a split from its scores, MD included; five folds, halves
rank_metrics    R@K, MRR, nDCG@10, MedR, MeanR, R@sum, from ranks
metrics         nDCG, MRR, MAP, recall, success, mAP@R and R-Precision, from ranks and relevance
c_way           accuracy among c options
sampled         the queries to rank of a large split, halves of a split
separation      mean distance MD, distributions of similarities
bootstrap       intervals of recalls and of differences between runs
hub_correction  scores corrected for hubs
"""
