"""Writes the official node tests of the installed package onnx: `onnx_nodes.py FOLDER`.

Each case is NAME/model.onnx and NAME/test_data_set_0/{input,output}_N.pb, the form of ONNX's own test data, and
NAME/tolerance with its relative and absolute tolerance. Wheels have the
cases as code, and no data; inputs and outputs that are no tensors are left out, and the runner refuses these cases.
"""
import os
import sys
import warnings

import numpy as np

warnings.simplefilter("ignore")


def main():
    from onnx import TensorProto, numpy_helper
    from onnx.backend.test.case.node import collect_testcases
    out, written = sys.argv[1], 0
    for case in collect_testcases(None):
        data = os.path.join(out, case.name, "test_data_set_0")
        os.makedirs(data, exist_ok=True)
        with open(os.path.join(out, case.name, "model.onnx"), "wb") as f:
            f.write(case.model.SerializeToString())
        with open(os.path.join(out, case.name, "tolerance"), "w") as f:
            f.write(f"{case.rtol} {case.atol}")
        inputs, outputs = case.data_sets[0]
        for kind, values, infos in (("input", inputs, case.model.graph.input), ("output", outputs, case.model.graph.output)):
            for i, (v, info) in enumerate(zip(values, infos)):
                if not info.type.HasField("tensor_type"):
                    continue
                t = v if isinstance(v, TensorProto) else numpy_helper.from_array(np.asarray(v), info.name)
                with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as f:
                    f.write(t.SerializeToString())
        written += 1
    print(f"{written} cases")


main()
