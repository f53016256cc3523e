"""The models that the paper compares itself with, asked in the terms of the engine: `Insertion` in, `Scored` out.

They are trained by `xl-editor train` (objectives l2r and seq2seq), and nothing but the evaluation uses them.
"""
