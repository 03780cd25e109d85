"""onnxruntime beside internal/onnxbeside: `peer.py FILE SHAPE THREADS`, a line of JSON for every line of input.

Its input is as long as the file declares, of the numbers ((7 i) mod 256) / 255. Times are of all its threads together.
"""
import json
import sys
import time

import numpy as np
import onnxruntime as ort

o = ort.SessionOptions()
o.intra_op_num_threads, o.inter_op_num_threads = int(sys.argv[3]), 1
o.add_session_config_entry("session.intra_op.allow_spinning", "0")  # a waiting thread takes no core from the other program
session = ort.InferenceSession(sys.argv[1], o, providers=["CPUExecutionProvider"])
shape = [int(n) for n in sys.argv[2].split("x")]
x = (np.arange(np.prod(shape)) * 7 % 256 / 255).astype(np.float32).reshape(shape)
feed = {session.get_inputs()[0].name: x}
print(json.dumps({"version": ort.__version__}), flush=True)
for _ in sys.stdin:
    began, used = time.perf_counter(), time.process_time()
    out = session.run(None, feed)[0]
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    print(json.dumps({"seconds": seconds, "cpu": cpu, "out": out.astype(np.float64).ravel()[:: max(1, out.size // 4096)].tolist(), "size": out.size}), flush=True)
