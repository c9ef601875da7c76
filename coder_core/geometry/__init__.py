"""Embeddings as points: maps on a plane, offline clusters, exact neighbours, the modality gap, the fixed text space.

points              images and captions as one cloud, in tiles
layout              a joint space on a plane: principal (PCA), umap_layout, tsne, aligned to another run's by alignment
settings            what layouts and clusters are computed with
timing              how long a layout takes
kmeans              spherical k-means of image-caption pairs
neighbours          exact nearest neighbours by cosine
modality_gap        distance between the mean image and the mean caption
text_space          captions as vectors that training does not move
caption_neighbours  every caption's nearest captions in such a space
"""
