"""Retrieval metrics: recalls from ranks with exact ties, c-way accuracy, matching pairs against all others.

sources      what scores come from: embeddings, a matrix, or several of them mixed
tiles        their scores, fast or exact, tile by tile
ranking      the rank of every right answer, the best candidates of every query
recall       R@K, MRR, MedR, MeanR, R@sum, five folds
graded       nDCG, MRR, MAP, recall and success of graded judgements
c_way        accuracy among c options
separation   mean distance MD, distributions of similarities
"""
