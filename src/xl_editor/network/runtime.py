"""ONNX Runtime, silenced: by default its builds report their use to its maker, over the network. Not from here.

The thread that does so would also keep forked processes from ending.
"""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # is read when ONNX Runtime is imported

from onnxruntime import GraphOptimizationLevel, InferenceSession, OrtValue, SessionOptions

__all__ = ["GraphOptimizationLevel", "InferenceSession", "OrtValue", "SessionOptions"]
