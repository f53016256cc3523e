"""What the engine asks (protocol), on ONNX Runtime (onnx; its graphs: graphs, export) or on torch (torch)."""
