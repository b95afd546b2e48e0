#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ort_loop.py MODEL PROMPT.npy N OUT.npy [THREADS]: N greedy ids by a loop around ONNX Runtime, and its time a step."""
import sys
import time
import numpy as np
import onnxruntime as ort

path, prompt, count, out = sys.argv[1], np.load(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
options = ort.SessionOptions()
options.intra_op_num_threads = int(sys.argv[5]) if len(sys.argv) > 5 else 0
s = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
ins, outs = s.get_inputs(), [o.name for o in s.get_outputs()]
batch, past = prompt.shape[0], 0
types = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
cache = {i.name: np.zeros([batch, i.shape[1], 0, i.shape[3]], types[i.type]) for i in ins if i.name.startswith("past")}
ids, chosen, inside, begun = prompt, [], 0.0, 0.0
for step in range(count):
    now = ids.shape[1]
    feed = {"input_ids": ids, **cache}
    for i in ins:
        if i.name == "attention_mask":
            feed[i.name] = np.ones([batch, past + now], np.int64)
        elif i.name == "position_ids":
            feed[i.name] = np.tile(np.arange(past, past + now, dtype=np.int64), (batch, 1))
        elif i.name == "seqlens_k":
            feed[i.name] = np.full([batch], past + now - 1, np.int32)
        elif i.name == "total_sequence_length":
            feed[i.name] = np.array(past + now, np.int32)
    t0 = time.perf_counter()
    got = dict(zip(outs, s.run(None, feed)))
    if step == 0:
        begun = time.perf_counter()
    else:
        inside += time.perf_counter() - t0
    cache = {k: got[k.replace("past_key_values", "present")] for k in cache}
    ids = got["logits"][:, -1].argmax(-1).astype(np.int64).reshape(batch, 1)
    chosen.append(ids)
    past += now
np.save(out, np.concatenate(chosen, 1))
print(f"{(time.perf_counter() - begun) / max(count - 1, 1) * 1e3:.3f} ms a step, "
      f"{inside / max(count - 1, 1) * 1e3:.3f} ms in ONNX Runtime")
