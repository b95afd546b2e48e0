#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_models.py DIR [KIND...]: writes small models with state, with seeded weights. test/data/steps holds those of
`make_models.py test/data/steps` and `make_models.py test/data/steps data`, which needs ONNX Runtime.

  gpt       a decoder of ONNX operators: KV cache, attention_mask, position_ids
  llama     the same with com.microsoft's GroupQueryAttention and rotary embedding: seqlens_k, total_sequence_length
  chain     products in 16 bits that normalize one another's results
  walk      a filter with state over pieces of sound
  grow      a state without names of axes, which grows
  stuck     a state that the model passes on as it is
  deep      gpt with 12 narrow layers, where planning costs most
  half      a decoder of 16-bit elements as of Llama, so wide that products of few rows take the kernels for large matrices
  half_T_N  the same of other sizes and types
  half_made the same with scales of normalizations that each step computes
  half_normed, half_masked, half_multi, half_biased  the same with other attention: normalized queries and keys; lengths that are sums of
            a mask; MultiHeadAttention, with a bias
  rows      prompts of two and of nine rows
  data      the prompts and pieces of the tests, and the ids that ort_loop.py chooses
  big       gpt at GPT-2's shape of layers (12 x 768), for measurements
"""
import os
import subprocess
import sys
import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper

F = T.FLOAT


class Net:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.inits, self.n = [], [], 0

    def init(self, name, a):
        self.inits.append(numpy_helper.from_array(np.array(a, order="C"), name))
        return name

    def weight(self, *shape, scale=None):
        self.n += 1
        scale = scale or 1 / np.sqrt(shape[0])
        return self.init(f"w{self.n}", (self.rng.standard_normal(shape) * scale).astype(np.float32))

    def const(self, *v, dtype=np.int64):
        self.n += 1
        return self.init(f"c{self.n}", np.array(v if len(v) != 1 or dtype == np.int64 else v[0], dtype))

    def scalar(self, v, dtype=np.float32):
        self.n += 1
        return self.init(f"c{self.n}", np.array(v, dtype))

    def op(self, kind, *ins, out=None, domain="", **attr):
        self.n += 1
        out = out or f"v{self.n}"
        self.nodes.append(h.make_node(kind, list(ins), [out] if isinstance(out, str) else out, f"{kind}_{self.n}",
                                      domain=domain, **attr))
        return out

    def norm(self, x, size):
        return self.op("LayerNormalization", x, self.init(f"g{self.n}", np.ones(size, np.float32)),
                       self.init(f"b{self.n}", np.zeros(size, np.float32)), axis=-1)

    def save(self, path, ins, outs, contrib=False):
        g = h.make_graph(self.nodes, "g", ins, outs, self.inits)
        ops = [h.make_opsetid("", 18)] + ([h.make_opsetid("com.microsoft", 1)] if contrib else [])
        m = h.make_model(g, opset_imports=ops, ir_version=9)
        onnx.save(m, path)


def info(name, t, dims):
    return h.make_tensor_value_info(name, t, dims)


def gpt(path, layers=2, size=32, heads=2, vocab=61, longest=176, seed=1, contrib=False):
    """A decoder. With contrib, attention is one operator, and positions are rotary."""
    n, d = Net(seed), size // heads
    ids = n.op("Gather", n.weight(vocab, size, scale=1), "input_ids")
    if contrib:
        x = ids
        angle = np.outer(np.arange(longest), 10000.0 ** (-np.arange(0, d, 2) / d)).astype(np.float32)
        cos, sin = n.init("cos", np.cos(angle)), n.init("sin", np.sin(angle))
    else:
        x = n.op("Add", ids, n.op("Gather", n.weight(longest, size, scale=0.3), "position_ids"))
        now = n.op("Shape", "input_ids", start=1)
        total = n.op("Shape", "attention_mask", start=1)
        past = n.op("Sub", total, now)
        zero, one = n.scalar(0, np.int64), n.scalar(1, np.int64)
        key = n.op("Range", zero, n.op("Squeeze", total), one)
        query = n.op("Range", n.op("Squeeze", past), n.op("Squeeze", total), one)
        seen = n.op("LessOrEqual", n.op("Unsqueeze", key, n.const(0)), n.op("Unsqueeze", query, n.const(1)))
        masked = n.op("Cast", "attention_mask", to=T.BOOL)
        masked = n.op("Unsqueeze", masked, n.const(1, 2))
        bias = n.op("Where", n.op("And", seen, masked), n.scalar(0.0), n.scalar(-1e9))
    kv = heads if not contrib else heads // 2
    ins = [info("input_ids", T.INT64, ["batch", "sequence"])]
    if contrib:
        ins += [info("seqlens_k", T.INT32, ["batch"]), info("total_sequence_length", T.INT32, [])]
    else:
        ins += [info("attention_mask", T.INT64, ["batch", "total"]), info("position_ids", T.INT64, ["batch", "sequence"])]
    outs = [info("logits", F, ["batch", "sequence", vocab])]
    for i in range(layers):
        y = n.norm(x, size)
        names = [f"past_key_values.{i}.{k}" for k in ("key", "value")]
        new = [f"present.{i}.{k}" for k in ("key", "value")]
        ins += [info(k, F, ["batch", kv, "past_sequence_length", d]) for k in names]
        outs += [info(k, F, ["batch", kv, "total_length", d]) for k in new]
        q, k, v = n.op("MatMul", y, n.weight(size, heads * d)), n.op("MatMul", y, n.weight(size, kv * d)), \
            n.op("MatMul", y, n.weight(size, kv * d))
        if contrib:
            out = f"a{i}"
            n.op("GroupQueryAttention", q, k, v, *names, "seqlens_k", "total_sequence_length", cos, sin,
                 out=[out, *new], domain="com.microsoft", num_heads=heads, kv_num_heads=kv, do_rotary=1)
        else:
            def split(t):
                return n.op("Transpose", n.op("Reshape", t, n.const(0, 0, heads, d)), perm=[0, 2, 1, 3])
            q, k, v = split(q), split(k), split(v)
            k = n.op("Concat", names[0], k, axis=2, out=new[0])
            v = n.op("Concat", names[1], v, axis=2, out=new[1])
            s = n.op("Mul", n.op("MatMul", q, n.op("Transpose", k, perm=[0, 1, 3, 2])), n.scalar(float(d) ** -0.5))
            p = n.op("Softmax", n.op("Add", s, bias), axis=-1)
            out = n.op("Reshape", n.op("Transpose", n.op("MatMul", p, v), perm=[0, 2, 1, 3]), n.const(0, 0, size))
        x = n.op("Add", x, n.op("MatMul", out, n.weight(size, size)))
        y = n.op("MatMul", n.norm(x, size), n.weight(size, 4 * size))
        y = n.op("Mul", y, n.op("Sigmoid", n.op("Mul", y, n.scalar(1.702))))
        x = n.op("Add", x, n.op("MatMul", y, n.weight(4 * size, size)))
    n.op("MatMul", n.norm(x, size), n.weight(size, vocab), out="logits")
    n.save(path, ins, outs, contrib)


def half(path, size=512, heads=8, kv=4, d=64, wide=256, vocab=61, longest=176, seed=8, t=T.FLOAT16, attention="group", made=False, watched=False, twice=False):
    """A decoder of 16-bit elements: normalization by the root of the mean of squares, a gate in the feed-forward part. attention:
    "normed", with normalized queries and keys; "masked", whose lengths are sums of a mask; "multi", MultiHeadAttention; "biased", that
    with a bias. With `made`, the scales of normalizations are what the step computes. With `watched`, somebody reads the new values, too; with `twice`, the cached
    values are an input of somebody else, too, as another state."""
    n = Net(seed)

    def init(name, a):
        if t == T.FLOAT16:
            return n.init(name, a.astype(np.float16))
        short = (np.ascontiguousarray(a, np.float32).view(np.uint32) >> 16).astype(np.uint16)
        n.inits.append(h.make_tensor(name, t, a.shape, short.tobytes(), raw=True))
        return name

    def weight(*shape, scale=None):
        n.n += 1
        return init(f"w{n.n}", n.rng.standard_normal(shape) * (scale or shape[0] ** -0.5))

    def norm(x):
        n.n += 1
        scale = init(f"g{n.n}", 1 + 0.1 * n.rng.standard_normal(size))
        if made:
            scale = n.op("Add", scale, n.op("ReduceMean", x, n.const(0, 1), keepdims=0))
        return n.op("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=1e-5)

    angle = np.outer(np.arange(longest), 10000.0 ** (-np.arange(0, d, 2) / d)).astype(np.float16)
    cos, sin = init("cos", np.cos(angle)), init("sin", np.sin(angle))
    past, new = ([f"{kind}.0.{k}" for k in ("key", "value")] for kind in ("past_key_values", "present"))
    ins = [info("input_ids", T.INT64, ["batch", "sequence"]), info("seqlens_k", T.INT32, ["batch"]),
           info("total_sequence_length", T.INT32, [])]
    ins += [info(k, t, ["batch", kv, "past_sequence_length", d]) for k in past]
    outs = [info("logits", t, ["batch", "sequence", vocab])] + [info(k, t, ["batch", kv, "total_length", d]) for k in new]
    x = n.op("Gather", weight(vocab, size, scale=1), "input_ids")
    y = norm(x)
    q, k, v = (n.op("MatMul", y, weight(size, m * d)) for m in (heads, kv, kv))
    if attention in ("multi", "biased"):
        bias = init("bias", 0.1 * n.rng.standard_normal(3 * heads * d)) if attention == "biased" else ""
        a = n.op("MultiHeadAttention", q, k, v, bias, "", "", *past, out=["a", *new], domain="com.microsoft", num_heads=heads,
                 unidirectional=1)[0]
        ins = [i for i in ins if i.name not in ("seqlens_k", "total_sequence_length")]
    else:
        scales = [init(f"{k}_norm", 1 + 0.1 * n.rng.standard_normal(d)) for k in "qk"] if attention == "normed" else []
        more = ["", "", "", "", "", *scales] if scales else []
        if attention == "masked":
            n.op("Cast", n.op("Sub", n.op("ReduceSum", "attention_mask", n.const(1), keepdims=0), n.const(1)), to=T.INT32, out="seqlens_k")
            n.op("Cast", n.op("Gather", n.op("Shape", "attention_mask"), n.scalar(1, np.int64)), to=T.INT32, out="total_sequence_length")
            ins = [info("attention_mask", T.INT64, ["batch", "total"]) if i.name == "seqlens_k" else i
                   for i in ins if i.name != "total_sequence_length"]
        a = n.op("GroupQueryAttention", q, k, v, *past, "seqlens_k", "total_sequence_length", cos, sin, *more, out=["a", *new],
                 domain="com.microsoft", num_heads=heads, kv_num_heads=kv, do_rotary=1)[0]
    x = n.op("Add", x, n.op("MatMul", a, weight(heads * d, size)))
    y = norm(x)
    gate, up = n.op("MatMul", y, weight(size, wide)), n.op("MatMul", y, weight(size, wide))
    y = n.op("Mul", n.op("Mul", gate, n.op("Sigmoid", gate)), up)
    x = n.op("Add", x, n.op("MatMul", y, weight(wide, size)))
    n.op("MatMul", norm(x), weight(size, vocab), out="logits")
    if watched:
        n.op("ReduceMax", new[1], keepdims=0, out="peak")
        outs.append(info("peak", t, []))
    if twice:
        n.op("ReduceMax", "seen", keepdims=0, out="peak")
        ins.append(info("seen", t, ["batch", kv, "past_sequence_length", d]))
        outs.append(info("peak", t, []))
    n.save(path, ins, outs, contrib=True)


def chain(path, sizes=(256, 512, 2048, 1024), vocab=64, seed=10):
    """Products of few rows, each of which normalizes the rows that the one before has made and that nobody else reads. While the first one's
    rows are there, a larger value has the place that the results of the next two take, so that its workspace gets those rows' place."""
    n = Net(seed)

    def half(name, *shape, scale=1):
        return n.init(name, (n.rng.standard_normal(shape) * scale).astype(np.float16))

    x = n.op("Gather", half("words", vocab, sizes[0]), "input_ids")
    for i, (k, m) in enumerate(zip(sizes, (*sizes[1:], vocab))):
        if i in (1, 3):  # the value before this one is there until this one is
            n.op("ReduceMax", n.op("Concat", before, x, x, axis=2), keepdims=0, out=f"peak{i}")
        before = x if i else n.op("MatMul", x, half("wide", k, sizes[2] + sizes[3], scale=k ** -0.5))
        if i:
            x = n.op("SimplifiedLayerNormalization", x, half(f"g{i}", k), axis=-1, epsilon=1e-5)
        x = n.op("MatMul", x, half(f"p{i}", k, m, scale=k ** -0.5), out="logits" if m == vocab else None)
    n.op("Add", "past_key_values.0", n.scalar(1.0), out="present.0")
    n.save(path, [info("input_ids", T.INT64, ["batch", "sequence"]), info("past_key_values.0", F, [])],
           [info("logits", T.FLOAT16, ["batch", "sequence", vocab]), *(info(f"peak{i}", T.FLOAT16, []) for i in (1, 3)), info("present.0", F, [])], contrib=True)


def walk(path):
    """y = x + 0.5 * the last element of the piece before; the state counts the pieces, too."""
    n = Net(3)
    last = n.op("Gather", "x", n.const(-1), axis=1)
    n.op("Add", "x", n.op("Mul", "state", n.scalar(0.5)), out="y")
    n.op("Identity", last, out="stateN")
    n.op("Add", "count", n.scalar(1.0), out="countN")
    n.op("ReduceMax", "x", n.const(1), keepdims=0, out="peak")
    n.save(path, [info("x", F, [1, 4]), info("state", F, [1, 1]), info("count", F, [])],
           [info("y", F, [1, 4]), info("peak", F, [1]), info("stateN", F, [1, 1]), info("countN", F, [])])


def grow(path):
    """The state has its elements behind one another; its axis has no name."""
    n = Net(4)
    n.op("Concat", "s", "x", axis=1, out="t")
    n.op("ReduceSum", "t", n.const(1), keepdims=0, out="sum")
    n.save(path, [info("x", F, [1, "n"]), info("s", F, [1, None])],
           [info("sum", F, [1]), info("t", F, [1, None])])


def stuck(path):
    n = Net(5)
    n.op("Add", "x", "h", out="y")
    n.op("Identity", "h", out="hn")
    n.save(path, [info("x", F, [1, 4]), info("h", F, [1, 4])], [info("y", F, [1, 4]), info("hn", F, [1, 4])])


def data(path):
    """What test/cli/steps.bats reads and compares with."""
    folder, here = os.path.dirname(path), os.path.dirname(os.path.abspath(__file__))
    rng = np.random.default_rng(9)
    np.save(os.path.join(folder, "prompt.npy"), rng.integers(0, 61, (1, 16)))
    np.save(os.path.join(folder, "prompts.npy"), rng.integers(0, 61, (2, 5)))
    np.save(os.path.join(folder, "x.npy"), np.arange(1, 15, dtype=np.float32)[None])
    for kind in "gpt", "llama":
        for prompt, n in ("prompt", 128), ("prompts", 20):
            subprocess.run([sys.executable, os.path.join(here, "ort_loop.py"), os.path.join(folder, kind + ".onnx"),
                            os.path.join(folder, prompt + ".npy"), str(n),
                            os.path.join(folder, f"{kind}.{prompt}.ids.npy")], check=True)
    # half.onnx itself is too large to be kept with the tests
    half(os.path.join(folder, "half.onnx"))
    for prompt, n in ("prompt", 20), ("prompts", 20):
        subprocess.run([sys.executable, os.path.join(here, "ort_loop.py"), os.path.join(folder, "half.onnx"),
                        os.path.join(folder, prompt + ".npy"), str(n), os.path.join(folder, f"half.{prompt}.ids.npy")], check=True)
    os.remove(os.path.join(folder, "half.onnx"))


KINDS = {
    "gpt": gpt,
    "llama": lambda p: gpt(p, seed=2, contrib=True),
    "half": half,
    # products whose columns one block has, and two and four share
    **{f"half_{name}_{size}": lambda p, t=t, size=size, wide=wide: half(p, size, wide=wide, t=t)
       for name, t in (("f16", T.FLOAT16), ("bf16", T.BFLOAT16)) for size, wide in ((384, 352), (512, 256), (1024, 136))},
    "half_made": lambda p: half(p, made=True),
    "half_watched": lambda p: half(p, watched=True),
    "half_twice": lambda p: half(p, twice=True),
    **{f"half_{kind}": lambda p, kind=kind: half(p, attention=kind) for kind in ("normed", "masked")},
    **{f"half_{kind}": lambda p, kind=kind: half(p, kv=8, attention=kind) for kind in ("multi", "biased")},
    "chain": chain,
    "walk": walk,
    "grow": grow,
    "stuck": stuck,
    "rows": lambda p: [np.save(os.path.join(os.path.dirname(p), f"rows{n}.npy"), np.arange(n).reshape(n, 1)) for n in (2, 9)],
    "data": data,
    "deep": lambda p: gpt(p, layers=12, size=64, heads=4, vocab=211, longest=1024, seed=7),
    "big": lambda p: gpt(p, layers=12, size=768, heads=12, vocab=8192, longest=2048, seed=6),
}

if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for kind in sys.argv[2:] or ["gpt", "llama", "walk", "grow", "stuck"]:
        KINDS[kind](os.path.join(sys.argv[1], kind + ".onnx"))
