import os

# onnxruntime, which the modules here import, would send data on its use to its makers.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
