"""From text files to a model directory: recipes, corpora, sampling, objectives, and the training run."""
