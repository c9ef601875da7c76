"""Embeddings as points: maps on a plane, offline clusters, exact neighbours, the modality gap, the fixed text space.

points             images and captions as one cloud, in tiles; the modality gap
layout             a joint space on a plane: PCA, UMAP or t-SNE, aligned to another run's
settings           settings of layouts and clusters
kmeans             spherical k-means of image-caption pairs
text_space         captions as vectors that training does not move
captions           nearest captions and similar images of a caption in such a space
"""
