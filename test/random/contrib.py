# SPDX-License-Identifier: Apache-2.0
"""Recipes of the domain com.microsoft; ONNX Runtime is their oracle."""

import numpy as np

from graph import NUMPY, Skip, Value
from network import scale, window
from recipe import recipe as any_recipe

COMMON = ("float", "float16", "double")
FULL = ("float", "float16")


def recipe(*names):
    return any_recipe(*names, domain="com.microsoft")


@recipe("Gelu", "QuickGelu", "FastGelu")
def gelu(c):
    x = c.any("T", lo=1, among=FULL)
    # 1 + tanh(x) cancels where x is far below 0
    return dict(X=x, bias=c.maybe(lambda: c.any("T", shape=[x.shape[-1]])), alpha=c.maybe(lambda: c.num(0.5, 2)), _atol=1e-6)


@recipe("BiasGelu")
def bias_gelu(c):
    x = c.any("T", lo=1, among=FULL)
    return dict(A=x, B=c.any("T", shape=[x.shape[-1]]))


@recipe("Tokenizer")
def tokenizer(c):
    parts = ["a", "b", "\u00f1", "\u65e5", " ", "  ", ",", "--", "\n", "x1", "A", ".", ""]
    shape = c.choice([[c.int(0, 4)], [c.int(1, 3), c.int(0, 3)]])
    words = np.empty(shape, object)
    for i in np.ndindex(*shape):
        words[i] = "".join(c.choice(parts) for _ in range(c.int(0, 9)))
    patterns = [" ", ",", r"\s+", "a|ab", "a*", r"\b", "\u00f1", "^a", "a$", "(?i)a", r"\d", "--?", "[^a-z]+"]
    token = c.flag(0.4)
    characters = not token and c.flag(0.3)
    return dict(X=Value(words), mark=c.int(0, 1), mincharnum=1 if characters else c.int(1, 3), pad_value=c.choice(["#", ""]),
                tokenexp=c.choice(patterns + [r"\w+", r"\S+", "[a-z]+"]) if token else None,
                separators=[""] if characters else None if token else [c.choice(patterns) for _ in range(c.int(1, 3))])


@recipe("FusedMatMul", "TransposeMatMul")
def fused_matmul(c):
    ta, tb = c.int(0, 1), c.int(0, 1)
    t = c.pick("T", ("float",))
    batch = c.dims(0, 2, False, 3)
    m, k, n = c.dim(1, 6), c.dim(1, 6), c.dim(1, 6)
    ba = bb = 0
    if len(batch) and c.schema.name == "FusedMatMul":
        ba, bb = c.int(0, 1), c.int(0, 1)
    def lay(rows, cols, trans, trans_batch):
        a = [cols, rows] if trans else [rows, cols]
        return batch + a if not trans_batch else [a[0]] + batch + [a[1]]
    return dict(A=c.any("T", shape=lay(m, k, ta, ba)), B=c.fresh(t, lay(k, n, tb, bb)), transA=ta, transB=tb, transBatchA=ba or None, transBatchB=bb or None,
                alpha=c.maybe(lambda: c.num(-2, 2)))


@recipe("FusedGemm")
def fused_gemm(c):
    t = c.pick("T", ("float",))
    ta, tb = c.int(0, 1), c.int(0, 1)
    m, k, n = c.dim(1, 6), c.dim(1, 6), c.dim(1, 6)
    act = c.maybe(lambda: c.choice(["Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "Elu", "Softplus", "Softsign"]), 0.8)
    return dict(A=c.any("T", shape=[k, m] if ta else [m, k]), B=c.fresh(t, [n, k] if tb else [k, n]), C=c.maybe(lambda: c.fresh(t, c.within([m, n]))),
                transA=ta, transB=tb, alpha=c.maybe(lambda: c.num(-2, 2)), beta=c.maybe(lambda: c.num(-2, 2)), activation=act,
                activation_alpha=c.num(0.1, 0.5) if act in ("LeakyRelu", "HardSigmoid", "Elu") else None,
                activation_beta=c.num(0.1, 0.5) if act == "HardSigmoid" else None)


@recipe("FusedConv")
def fused_conv(c):
    a, space = window(c, 2)
    t = c.pick("T", ("float",))
    group = c.choice([1, 1, 2])
    per, m = c.dim(1, 3), c.dim(1, 3) * group
    act = c.choice(["Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "Clip"])
    params = {"LeakyRelu": [0.1], "HardSigmoid": [0.2, 0.5], "Clip": [-0.5, 0.75]}.get(act)
    return dict(a, X=c.any("T", shape=[c.dim(1, 2), group * per] + space), W=c.fresh(t, [m, per] + a["kernel_shape"], const=True),
                B=c.maybe(lambda: c.fresh(t, [m], const=True)), group=group, activation=act, activation_params=params)


@recipe("BiasAdd", "BiasSplitGelu", "GroupNorm", "SkipGroupNorm", "SwiGLU", "ComplexMul", "ComplexMulConj", "MulInteger", "BiasDropout", "Rfft",
        "Irfft", "TorchEmbedding", "ReduceSumInteger", "MatMulNBitsMlp", "MatMulNBitsQkv", "MatMulNBitsQLoRA", "RouterGateUpProj", "GemmFastGelu",
        "FusedMatMulActivation", "NhwcFusedConv", "RelativePositionBias", "GatedRelativePositionBias", "GemmaRotaryEmbedding", "RemovePadding",
        "RestorePadding", "PackedAttention", "PackedMultiHeadAttention", "HyperConnectionLowRankMix")
def gpu_only(c):
    raise Skip("no oracle on the CPU")


@recipe("ScaledSiLU")
def scaled_silu(c):
    c.pick("T", FULL)
    m = c.pick("M", FULL)
    return dict(X=c.any("T", lo=1), scale=c.maybe(lambda: Value(np.asarray(c.num(-2, 2), NUMPY[m]))), alpha=c.maybe(lambda: c.num(-2, 2)), _tol=4)


def stream_sizes(c):
    """leading dimensions, branches, features; streams as one dimension or two"""
    lead, n, h, flat = c.dims(0, 2, False, 3), c.int(1, 4), c.int(1, 6), c.flag()
    return lead, n, h, lead + ([n * h] if flat else [n, h]), dict(num_branches=n if flat else None)


@recipe("BranchwiseRMSNorm")
def branchwise_norm(c):
    lead, n, h, shape, how = stream_sizes(c)
    t, m = c.pick("T", FULL), c.pick("M", FULL)
    return dict(how, X=c.fresh(t, shape), scale=c.maybe(lambda: c.fresh(m, c.choice([[n * h], [n, h], [h]]))), epsilon=c.maybe(lambda: c.num(1e-5, 0.1)), _tol=10)


@recipe("HyperConnectionPreMix")
def pre_mix(c):
    lead, n, h, shape, how = stream_sizes(c)
    t, m = c.pick("T", FULL), c.pick("M", FULL)
    gates = [[n], [n, 1], [n, h]] + ([[n * h]] if how["num_branches"] else [])
    return dict(how, streams=c.fresh(t, shape), pre_mix=c.fresh(m, lead + c.choice(gates)), reduction_scale=c.maybe(lambda: c.num(-2, 2)), _tol=10,
                _atol=1e-5 if t == "float" else 4e-3)


@recipe("HyperConnectionPostMix")
def post_mix(c):
    lead, n, h, shape, how = stream_sizes(c)
    t, m = c.pick("T", FULL), c.pick("M", FULL)
    return dict(how, streams=c.fresh(t, shape), block_output=c.fresh(t, lead + [h]), post_mix=c.fresh(m, lead + c.choice([[n], [n, 1], [n, h]])),
                stream_mix=c.maybe(lambda: c.fresh(m, lead + [n, n])), _tol=10, _atol=1e-5 if t == "float" else 4e-3)


@recipe("EngramGate")
def engram_gate(c):
    t = c.pick("T", FULL)
    b, s, m, h = c.dim(1, 2), c.dim(1, 3), c.int(1, 3), c.int(1, 6)
    outs = c.int(1, 2)
    return dict(key=c.any("T", shape=[b, s, m, h]), query=c.fresh(t, [b, s, m, h]), value=c.fresh(t, [b, s, h]), key_norm_scale=c.fresh(t, [m, h]),
                query_norm_scale=c.fresh(t, [m, h]), conv_norm_scale=c.fresh(t, [m, h]) if outs == 2 else None, epsilon=c.maybe(lambda: c.num(1e-5, 0.1)), _nout=outs,
                _tol=10, _atol=1e-5 if t == "float" else 8e-3)


@recipe("MoEGroupRouter")
def group_router(c):
    t = c.pick("T", FULL)
    groups, size = c.int(1, 4), c.int(1, 4)
    chosen = c.int(1, groups)
    logits = Value(np.asarray(c.rng.permutation(groups * size * 6).reshape(6, -1) / 16 - 1, NUMPY[t]))
    return dict(logits=logits, expert_bias=c.fresh("float", [groups * size]), n_group=groups, topk_group=chosen, top_k=c.int(1, chosen * size),
                group_topk=c.int(1, 3), router_sentinel=c.maybe(lambda: c.num(-9, 0)), _tol=10)


@recipe("CDist")
def cdist(c):
    t = c.pick("T")
    n = c.dim(1, 5)
    return dict(A=c.any("T", shape=[c.dim(1, 5), n]), B=c.fresh(t, [c.dim(1, 5), n]), metric=c.choice(["sqeuclidean", "euclidean"]), _tol=10, _atol=2e-3)


@recipe("GatherND")
def gather_nd(c):
    t = c.pick("T", COMMON)
    shape = c.dims(1, 4, False)
    k = c.int(1, len(shape))
    kind = c.pick("Tind")
    at = np.stack([c.rng.integers(-d, d, (2, 3)) for d in shape[:k]], -1)
    return dict(data=c.fresh(t, shape), indices=Value(at.astype(NUMPY[kind])))


@recipe("Pad")
def ms_pad(c):
    t = c.pick("T", ("float",))
    shape = [c.int(2, 4) for _ in range(c.int(1, 3))]
    mode = c.choice(["constant", "reflect", "edge"])
    pads = np.array([c.int(-1 if mode == "constant" else 0, 1) for _ in range(2 * len(shape))])
    return dict(data=c.fresh(t, shape), pads=Value(pads if c.flag() else pads[None], const=c.flag()), mode=mode,
                value=c.maybe(lambda: c.fresh(t, c.choice([[], [1]]))) if mode == "constant" else None)


@recipe("Range")
def ms_range(c):
    t = c.pick("T", ("int64", "int32", "float"))
    shape = c.choice([[], [1]])
    number = lambda v: Value(np.full(shape, v, NUMPY[t]))
    return dict(start=number(c.int(-5, 5)), limit=number(c.int(-5, 9)), delta=c.maybe(lambda: number(c.choice([-2, -1, 1, 2, 3]))))


@recipe("Unique")
def ms_unique(c):
    return dict(x=Value(c.rng.integers(0, 5, c.int(1, 9)).astype(np.float32)), _nout=3)


@recipe("UnfoldTensor")
def unfold(c):
    t = c.pick("T", COMMON + ("int64", "bool"))
    shape = c.dims(1, 4, False)
    axis = c.int(0, len(shape) - 1)
    return dict(input=c.fresh(t, shape), dim=axis - c.choice([0, len(shape)]), size=c.int(1, shape[axis]), step=c.maybe(lambda: c.int(1, 3)))


@recipe("MatMulInteger16")
def matmul_integer16(c):
    k = c.dim(1, 6)
    number = lambda *shape: Value(c.rng.integers(-999, 999, shape).astype(np.int16))
    return dict(A=number(c.dim(1, 4), k), B=number(k, c.dim(1, 4)))


@recipe("DynamicTimeWarping")
def warping(c):
    shape = [c.int(1, 7), c.int(1, 7)]
    cost = c.rng.integers(0, 4, shape) if c.flag() else c.rng.standard_normal(shape)
    return dict(input=Value((cost if c.flag() else cost[None]).astype(np.float32)))


@recipe("NGramRepeatBlock")
def repeat_block(c):
    b, words = c.dim(1, 3), c.int(1, 5)
    return dict(input_ids=Value(c.rng.integers(0, words, (b, c.int(1, 12)))), scores=c.fresh("float", [b, words]), ngram_size=c.int(1, 4))


@recipe("NGramHashMapping")
def ngram_hash(c):
    t = NUMPY[c.pick("M", ("int64", "int32"))]
    b, s, n, heads = c.dim(1, 2), c.dim(1, 7), c.int(2, 5), c.int(1, 3)
    ids = lambda *shape: Value(c.rng.integers(0, 5, shape).astype(t))
    eos = c.flag()
    return dict(input_ids=ids(b, s), multipliers=Value((c.rng.integers(0, 99, n + c.int(0, 1)) * 2 + 1).astype(t)), past_ids=c.maybe(lambda: ids(b, n - 1)),
                vocab_sizes=Value(c.rng.integers(1, 90, (n - 1) * heads).astype(t)), head_offsets=c.maybe(lambda: ids((n - 1) * heads)),
                eos_token_id=ids() if eos else None, segment_ids=c.maybe(lambda: Value(np.sort(c.rng.integers(0, 3, (b, s))).astype(np.int32))),
                max_ngram_size=n, n_head_per_ngram=heads, pad_id=c.int(0, 5), reset_on_eos=c.maybe(1), _nout=c.int(1, 2))


@recipe("VarlenCausalConvWithState")
def varlen_conv(c):
    t = c.pick("T", FULL)
    b, ch, taps, d, room = c.int(1, 3), c.dim(1, 4), c.int(1, 4), c.int(1, 2), c.choice([0, 0, 3])
    counts = [c.int(1, 5) for _ in range(b)]
    starts = Value(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    return dict(input=c.fresh(t, [sum(counts), ch]), weight=c.fresh(t, [ch, 1, taps]), cumulative_sequence_length=starts, bias=c.maybe(lambda: c.fresh(t, [ch])),
                initial_state=c.fresh(t, [b, ch, (taps - 1) * d]), capture_count=Value(c.rng.integers(-1, 5, b).astype(np.int32)) if room else None,
                state_update_capacity=room or None, dilation=d, activation=c.maybe(lambda: c.choice(["none", "silu", "swish"])), _nout=3 if room else 2, _tol=10,
                _atol=1e-5 if t == "float" else 8e-3)


@recipe("BiasSoftmax")
def bias_softmax(c):
    b, n, s, t = c.dim(1, 2), c.dim(1, 3), c.dim(1, 4), c.dim(1, 5)
    kind = c.pick("T", ("float",))
    inner = c.int(0, 1)
    return dict(data=c.fresh(kind, [b, n, s, t]), bias=c.fresh(kind, [b, 1, s, t] if not inner else [1, 1, s, t]), axis=3, is_inner_broadcast=inner)


@recipe("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def skip_layer_norm(c):
    t = c.pick("T", FULL)
    b, s, h = c.dim(1, 3), c.dim(1, 4), c.dim(1, 8)
    shape = [b, s, h] if c.flag(0.8) else [b * s, h]
    skip = shape if c.flag(0.8) or len(shape) == 2 else c.choice([[1, s, h], [s, h]])
    outs = c.choice([1, 4])
    return dict(input=c.any("T", shape=shape), skip=c.fresh(t, skip), gamma=c.fresh(t, [h]), beta=c.maybe(lambda: c.fresh(t, [h])),
                bias=c.maybe(lambda: c.fresh(t, [h])), epsilon=c.maybe(lambda: c.num(1e-5, 0.1)), _only=[0, 3] if outs == 4 else [0], _tol=10,
                _atol=1e-5 if t == "float" else 4e-3)


@recipe("EmbedLayerNormalization")
def embed(c):
    t = c.pick("T", ("float",))
    b, s, h, v = c.dim(1, 2), c.dim(1, 4), c.dim(1, 6), 7
    ids = lambda top: Value(c.rng.integers(0, top, (b, s)).astype(np.int32))
    seg = c.flag(0.7)
    return dict(input_ids=ids(v), segment_ids=ids(2) if seg else None, word_embedding=c.fresh(t, [v, h], const=True), position_embedding=c.fresh(t, [s + 2, h], const=True),
                segment_embedding=c.fresh(t, [2, h], const=True) if seg else None, gamma=c.fresh(t, [h]), beta=c.fresh(t, [h]),
                mask=c.maybe(lambda: Value((np.arange(s)[None] < c.rng.integers(1, s + 1, (b, 1))).astype(np.int32))),
                position_ids=c.maybe(lambda: ids(s + 2), 0.3), epsilon=c.maybe(lambda: c.num(1e-5, 0.1)), _nout=c.choice([2, 3]), _tol=10, _atol=1e-5)


def lengths(c, b, total):
    """key masks in the forms that ONNX Runtime takes: lengths or a raw mask"""
    if c.flag():
        return Value(c.rng.integers(1, total + 1, b).astype(np.int32))
    m = np.arange(total)[None] < c.rng.integers(1, total + 1, (b, 1))
    return Value(m.astype(np.int32))


@recipe("Attention")
def attention(c):
    t = c.pick("T", ("float",))
    b, s, n, h, width = c.dim(1, 2), c.dim(1, 4), c.int(1, 3), c.int(1, 4), c.dim(1, 6)
    past = c.dim(1, 3) if c.flag(0.3) else 0
    total = s + past
    mask = c.maybe(lambda: lengths(c, b, total) if c.flag(0.7) else Value((c.rng.random((b, s, total)) < 0.7).astype(np.int32)))
    hv = h if past or c.flag(0.7) else c.int(1, 4)
    sizes = [n * h, n * h, n * hv] if hv != h or c.flag(0.2) else None
    return dict(input=c.any("T", shape=[b, s, width]), weights=c.fresh(t, [width, 2 * n * h + n * hv]), bias=c.fresh(t, [2 * n * h + n * hv]), mask_index=mask,
                past=c.fresh(t, [2, b, n, past, h]) if past else None, num_heads=n, unidirectional=c.maybe(lambda: c.int(0, 1)), qkv_hidden_sizes=sizes,
                attention_bias=c.maybe(lambda: c.fresh(t, [c.choice([1, b]), c.choice([1, n]), s, total]), 0.3), scale=c.maybe(lambda: c.num(0.1, 1), 0.3),
                _nout=2 if past or c.flag(0.3) and hv == h else 1, _tol=10, _atol=1e-5)


@recipe("MultiHeadAttention")
def multi_head(c):
    t = c.pick("T", ("float",))
    b, s, l, n, h, hv = c.dim(1, 2), c.dim(1, 4), c.dim(1, 5), c.int(1, 3), c.int(1, 4), c.int(1, 4)
    kind = c.int(0, 3)
    past = c.dim(1, 3) if kind == 0 and c.flag(0.3) else 0
    got = {}
    if kind == 0:
        got = dict(query=c.any("T", shape=[b, s, n * h]), key=c.fresh(t, [b, l, n * h]), value=c.fresh(t, [b, l, n * hv]))
    elif kind == 1:  # cross attention with heads apart
        got = dict(query=c.any("T", shape=[b, s, n * h]), key=c.fresh(t, [b, n, l, h]), value=c.fresh(t, [b, n, l, hv]))
    elif kind == 2:
        got = dict(query=c.any("T", shape=[b, s, n * h]), key=c.fresh(t, [b, l, n, 2, h]))
        hv = h
    else:
        l, hv = s, h
        got = dict(query=c.fresh(t, [b, s, n, 3, h]))
    if past:
        hv = h
        got["value"] = c.fresh(t, [b, l, n * h])
        got.update(past_key=c.fresh(t, [b, n, past, h]), past_value=c.fresh(t, [b, n, past, hv]))
    total = l + past
    bias = c.maybe(lambda: c.fresh(t, [2 * n * h + n * hv])) if kind == 0 else None
    return dict(got, bias=bias, num_heads=n, key_padding_mask=c.maybe(lambda: lengths(c, b, total), 0.4) if kind == 0 else None,
                attention_bias=c.maybe(lambda: c.fresh(t, [c.choice([1, b]), c.choice([1, n]), s, total]), 0.3), scale=c.maybe(lambda: c.num(0.1, 1), 0.3),
                unidirectional=c.maybe(lambda: c.int(0, 1), 0.3), _nout=3 if past else 1, _tol=10, _atol=1e-5)


def cache(c, t, shape, quant, bits):
    """a past in the form of the cache: of the type t, or codes"""
    if quant == "NONE":
        return c.fresh(t, shape)
    if bits == 4:
        return Value(c.rng.integers(0, 256, shape[:3] + [shape[3] // 2]).astype(np.uint8))
    return Value(c.rng.integers(-128, 128, shape).astype(np.int8))


@recipe("GroupQueryAttention")
def group_query(c):
    t = c.pick("T", ("float",))
    b, kvn, h = c.dim(1, 2), c.int(1, 2), 16 if c.flag() else 8
    n = kvn * c.int(1, 3)
    quant, bits = (c.choice(["PER_TENSOR", "PER_CHANNEL"]), c.choice([4, 8])) if c.flag(0.3) else ("NONE", None)
    c.bound["T_CACHE"] = t if quant == "NONE" else "uint8" if bits == 4 else "int8"
    prompt = c.flag()
    rotary = c.maybe(lambda: 1, 0.4)
    if rotary:
        h = 16
    window = c.maybe(lambda: c.int(1, 4), 0.3)
    slide = window is not None and c.flag(0.5)
    s, past = (c.dim(1, 5), 0) if prompt else (1 if b > 1 or c.flag() else c.int(1, 3), c.int(1, 7))
    total = s + past
    room = past if not slide else window + c.int(0, 3)
    if not slide and c.flag(0.2):
        room = total + c.int(0, 2)
    lens = np.full(b, total - 1)
    qk = c.maybe(lambda: c.int(1, 2), 0.2) if not slide else None
    if b > 1 and not prompt and not slide and not qk and c.flag(0.3):
        lens[0] -= c.int(0, past)
    step = room - window + 1 if slide else 1
    kept = total if total <= room else total - step * -(-(total - room) // step)
    top = total + 2
    packed = c.flag(0.25)
    scales = lambda: None if quant == "NONE" else scale(c, [1] if quant == "PER_TENSOR" else [1, kvn, 1, h])
    return dict(query=c.any("T", shape=[b, s, (n + 2 * kvn) * h]) if packed else c.any("T", shape=[b, s, n * h]), key=None if packed else c.fresh(t, [b, s, kvn * h]),
                value=None if packed else c.fresh(t, [b, s, kvn * h]), past_key=cache(c, t, [b, kvn, room, h], quant, bits), past_value=cache(c, t, [b, kvn, room, h], quant, bits),
                seqlens_k=Value(lens.astype(np.int32)), total_sequence_length=Value(np.asarray(total, np.int32), const=True), num_heads=n, kv_num_heads=kvn,
                do_rotary=rotary, cos_cache=c.fresh(t, [top, h // 2]) if rotary else None, sin_cache=c.fresh(t, [top, h // 2]) if rotary else None,
                rotary_interleaved=c.maybe(lambda: c.int(0, 1)) if rotary else None, scale=c.maybe(lambda: c.num(0.1, 1), 0.3), softcap=c.maybe(lambda: c.num(1, 5), 0.3),
                local_window_size=window, sliding_window_cache=1 if slide else None, smooth_softmax=c.maybe(1, 0.2), kv_cache_bit_width=bits,
                k_quant_type=quant if quant != "NONE" else None, v_quant_type=quant if quant != "NONE" else None, k_scale=scales(), v_scale=scales(), qk_output=qk,
                attention_bias=c.maybe(lambda: c.fresh(t, [c.choice([1, b]), c.choice([1, n]), s, total]), 0.2), _nout=4 if qk else 3, _tol=10, _atol=1e-5, _quant=1,
                _rows=kept if slide else None, _reuse=False if slide else None)


@recipe("RotaryEmbedding")
def rotary(c):
    t = c.pick("T", FULL)
    b, n, s, h = c.dim(1, 2), c.int(1, 3), c.dim(1, 4), 2 * c.int(1, 4)
    four = c.flag()
    d = c.maybe(lambda: 2 * c.int(1, h // 2), 0.2) if not four else None
    top = s + 3
    ids = Value(np.asarray([c.int(0, 3)], np.int64)) if c.flag() else Value(c.rng.integers(0, top, (b, s)).astype(np.int64))
    return dict(input=c.any("T", shape=[b, n, s, h] if four else [b, s, n * h]), position_ids=ids, cos_cache=c.fresh(t, [top, (d or h) // 2]),
                sin_cache=c.fresh(t, [top, (d or h) // 2]), num_heads=n if d else None, rotary_embedding_dim=d, interleaved=c.maybe(lambda: c.int(0, 1)), _tol=4)


@recipe("MatMulNBits")
def matmul_nbits(c):
    t = c.pick("T1", FULL)
    bits = c.choice([4, 4, 4, 8])
    block = c.choice([16, 32, 64])
    k, n = c.int(1, 80), c.int(1, 9)
    blocks = -(-k // block)
    kind = c.int(0, 2)
    zero = None
    if kind == 1:
        zero = Value(c.rng.integers(0, 256, n * -(-blocks * bits // 8)).astype(np.uint8), const=True)
    elif kind == 2 and bits == 4:
        zero = Value(c.rng.uniform(0, 15, n * blocks).astype(NUMPY[t]), const=True)
    return dict(A=c.any("T1", shape=c.dims(1, 2, False) + [k]), B=Value(c.rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8), const=True),
                scales=scale(c, [n * blocks], t), zero_points=zero, bias=c.maybe(lambda: c.fresh(t, [n], const=True), 0.3), K=k, N=n, bits=bits, block_size=block,
                accuracy_level=4 if bits == 4 and kind < 2 and t == "float" and c.flag(0.3) else c.maybe(lambda: c.int(0, 1), 0.3),
                _tol=10, _atol=1e-5 if t == "float" else 2e-2)


@recipe("MatMulBnb4")
def matmul_bnb4(c):
    t = c.pick("T1", ("float",))
    block = c.choice([16, 32, 64])
    k, n, trans = c.int(1, 40), c.int(1, 9), int(c.flag(0.85))
    return dict(A=c.any("T1", shape=c.dims(1, 2, False) + [k if trans else n]), B=Value(c.rng.integers(0, 256, (n * k + 1) // 2).astype(np.uint8), const=True),
                absmax=scale(c, [-(-n * k // block)], t), K=k, N=n, block_size=block, quant_type=c.int(0, 1), transB=trans, _tol=10, _atol=1e-5)


# --- quantised


@recipe("QLinearAdd", "QLinearMul")
def qlinear_binary(c):
    t = c.pick("T")
    shape = c.dims()
    z = lambda: c.fresh(t, [], const=True)
    return dict(A=c.any("T", shape=shape), A_scale=scale(c), A_zero_point=z(), B=c.fresh(t, c.partner(shape)), B_scale=scale(c), B_zero_point=z(),
                C_scale=scale(c, high=1), C_zero_point=z(), _quant=1)


@recipe("QLinearLeakyRelu", "QLinearSigmoid")
def qlinear_unary(c):
    t = c.pick("T")
    return dict(X=c.any("T"), X_scale=scale(c), X_zero_point=c.maybe(lambda: c.fresh(t, [], const=True), 0.8), Y_scale=scale(c), Y_zero_point=c.maybe(lambda: c.fresh(t, [], const=True), 0.8),
                alpha=c.maybe(lambda: c.num(0, 0.5)), _quant=1)


@recipe("QLinearSoftmax")
def qlinear_softmax(c):
    t = c.pick("T")
    x = c.any("T", lo=1, hi=4, zero=False)
    return dict(X=x, X_scale=scale(c), x_zero_point=c.fresh(t, [], const=True), x_scale=scale(c), y_scale=Value(np.float32(1 / 256), const=True), axis=c.axis(x.data.ndim),
                y_zero_point=Value(np.asarray(0 if t == "uint8" else -128, NUMPY[t]), const=True), opset=c.choice([13, 13, 12, 7]), _quant=2)


@recipe("QLinearGlobalAveragePool")
def qlinear_global(c):
    t = c.pick("T")
    x = c.any("T", lo=4, hi=4, zero=False)
    last = c.int(0, 1)
    return dict(X=x, x_scale=scale(c), x_zero_point=c.fresh(t, [], const=True), y_scale=scale(c), y_zero_point=c.fresh(t, [], const=True), channels_last=last, _quant=1)


@recipe("QLinearAveragePool")
def qlinear_pool(c):
    t = c.pick("T")
    a, space = window(c, 2, dilate=False)
    last = c.int(0, 1)
    n, ch = c.dim(1, 2), c.dim(1, 3)
    return dict(a, X=c.fresh(t, [n] + space + [ch] if last else [n, ch] + space), x_scale=scale(c), x_zero_point=c.maybe(lambda: c.fresh(t, [], const=True)), y_scale=scale(c),
                y_zero_point=c.maybe(lambda: c.fresh(t, [], const=True)), channels_last=last, count_include_pad=c.maybe(lambda: c.int(0, 1)), _quant=1)


@recipe("NhwcMaxPool")
def nhwc_max_pool(c):
    a, space = window(c, 2)
    return dict(a, x=c.any("T", shape=[c.dim(1, 2)] + space + [c.dim(1, 4)]))


@recipe("QLinearConcat")
def qlinear_concat(c):
    t = c.pick("T8")
    shape = c.dims(1, 3, False)
    axis = c.int(0, len(shape) - 1)
    got = []
    for _ in range(c.int(1, 3)):
        shape[axis] = c.dim(1, 4)
        got += [c.fresh(t, shape), scale(c), c.fresh(t, [], const=True)]
    return dict(Y_scale=scale(c), Y_zero_point=c.fresh(t, [], const=True), inputs=got, axis=axis, _quant=1)


@recipe("QLinearWhere")
def qlinear_where(c):
    t = c.pick("T")
    shape = c.dims()
    z = lambda: c.fresh(t, [], const=True)
    return dict(condition=c.fresh("bool", shape), X=c.any("T", shape=shape), x_scale=scale(c), x_zero_point=z(), Y=c.fresh(t, c.within(shape)), y_scale=scale(c), y_zero_point=z(),
                z_scale=scale(c), z_zero_point=z(), _quant=1)


@recipe("QLinearReduceMean")
def no_kernel(c):
    raise Skip("no oracle")


@recipe("QLinearConv")
def qlinear_conv(c):
    a, space = window(c, 2)
    t = c.pick("T1")
    c.bound["T3"] = t
    tw = c.pick("T2", ("int8",) if t == "int8" else None)
    last = c.int(0, 1)
    n, ch, m = c.dim(1, 2), c.dim(1, 3), c.dim(1, 3)
    return dict(a, x=c.fresh(t, [n] + space + [ch] if last else [n, ch] + space), x_scale=scale(c), x_zero_point=c.fresh(t, [], const=True), w=c.fresh(tw, [m, ch] + a["kernel_shape"], const=True),
                w_scale=scale(c), w_zero_point=c.fresh(tw, [], const=True), y_scale=scale(c, high=2), y_zero_point=c.fresh(t, [], const=True), B=c.maybe(lambda: c.fresh("int32", [m], const=True)),
                channels_last=last, _quant=1)


@recipe("QGemm")
def qgemm(c):
    ta, tb = c.pick("TA"), c.pick("TB")
    if ta == "int8":
        tb = "int8"
    a, b = c.int(0, 1), c.int(0, 1)
    m, k, n = c.dim(1, 5), c.dim(1, 6), c.dim(1, 5)
    many = c.flag(0.3)
    quant = c.flag()
    zb = c.fresh(tb, [n] if many else [], const=True)
    return dict(A=c.fresh(ta, [k, m] if a else [m, k]), a_scale=scale(c), a_zero_point=c.fresh(ta, [], const=True), B=c.fresh(tb, [n, k] if b else [k, n]), b_scale=scale(c, [n] if many else []),
                b_zero_point=zb, C=c.maybe(lambda: c.fresh("int32", [n])), y_scale=scale(c, high=2) if quant else None, y_zero_point=c.fresh(ta, [], const=True) if quant else None,
                transA=a, transB=b, alpha=c.maybe(lambda: c.num(0.5, 2)), _quant=1)


@recipe("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(c):
    tb = c.pick("T2")
    k, n = c.dim(1, 8), c.dim(1, 6)
    many = c.flag(0.4)
    return dict(A=c.any("T1", shape=c.dims(1, 2, False) + [k]), B=c.fresh(tb, [k, n], const=c.flag(0.8)), b_scale=scale(c, [n] if many else []),
                b_zero_point=c.maybe(lambda: c.fresh(tb, [n] if many else [], const=True)), bias=c.maybe(lambda: c.fresh("float", [n])), _tol=10, _atol=1e-4)


@recipe("MatMulIntegerToFloat")
def matmul_integer_to_float(c):
    ta, tb, tf = c.pick("T1"), c.pick("T2"), c.pick("T3", ("float",))
    k, n = c.dim(1, 8), c.dim(1, 6)
    many = c.flag(0.4)
    return dict(A=c.fresh(ta, c.dims(1, 2, False) + [k]), B=c.fresh(tb, [k, n]), a_scale=scale(c), b_scale=scale(c, [n] if many else []), a_zero_point=c.maybe(lambda: c.fresh(ta, [])),
                b_zero_point=c.maybe(lambda: c.fresh(tb, [n] if many else [])), bias=c.maybe(lambda: c.fresh(tf, [n])))


@recipe("QAttention")
def qattention(c):
    t = c.pick("T1", ("uint8",))
    tw = c.pick("T2")
    b, s, n, h, width = c.dim(1, 2), c.dim(1, 4), c.int(1, 3), c.int(1, 4), c.dim(1, 6)
    past = c.dim(1, 3) if c.flag(0.3) else 0
    return dict(input=c.fresh(t, [b, s, width]), weight=c.fresh(tw, [width, 3 * n * h], const=c.flag(0.7)), bias=c.fresh("float", [3 * n * h]), input_scale=scale(c), weight_scale=scale(c),
                mask_index=c.maybe(lambda: lengths(c, b, s + past)), input_zero_point=c.fresh(t, [], const=True), weight_zero_point=c.fresh(tw, [], const=True),
                past=c.fresh("float", [2, b, n, past, h]) if past else None, num_heads=n, unidirectional=c.maybe(lambda: c.int(0, 1)), _nout=2 if past else 1, _tol=10, _atol=1e-5)


@recipe("DynamicQuantizeLSTM")
def dynamic_quantize_lstm(c):
    s, b, i, h = c.dim(1, 3), c.dim(1, 2), c.dim(1, 4), c.dim(1, 4)
    way = c.maybe(lambda: c.choice(["forward", "reverse", "bidirectional"]))
    d = 2 if way == "bidirectional" else 1
    t2 = c.pick("T2")
    many = c.flag(0.4)
    q = [d, 4 * h] if many else [d]
    z = lambda: Value(np.zeros(q, NUMPY[t2]) if t2 == "int8" else np.full(q, 100, np.uint8), const=True)
    return dict(X=c.fresh("float", [s, b, i]), W=c.fresh(t2, [d, i, 4 * h], const=True), R=c.fresh(t2, [d, h, 4 * h], const=True), B=c.maybe(lambda: c.fresh("float", [d, 8 * h], const=True)),
                W_scale=scale(c, q), W_zero_point=z(), R_scale=scale(c, q), R_zero_point=z(), hidden_size=h, direction=way, initial_h=c.maybe(lambda: c.fresh("float", [d, b, h])),
                initial_c=c.maybe(lambda: c.fresh("float", [d, b, h])), _tol=10, _atol=1e-4)


@recipe("QEmbedLayerNormalization")
def qembed(c):
    t = c.pick("T2")
    b, s, h, v = c.dim(1, 2), c.dim(1, 4), c.dim(1, 6), 7
    ids = lambda top: Value(c.rng.integers(0, top, (b, s)).astype(np.int32))
    seg = c.flag(0.7)
    got = dict(input_ids=ids(v), segment_ids=ids(2) if seg else None, word_embedding_quant=c.fresh(t, [v, h], const=True), position_embedding_quant=c.fresh(t, [s + 2, h], const=True),
               segment_embedding=c.fresh(t, [2, h], const=True) if seg else None, gamma_quant=c.fresh(t, [h], const=True), beta_quant=c.fresh(t, [h], const=True),
               mask=c.maybe(lambda: Value((np.arange(s)[None] < c.rng.integers(1, s + 1, (b, 1))).astype(np.int32))), epsilon=c.maybe(lambda: c.num(1e-5, 0.1)))
    for name in ("word_embedding", "position_embedding", "segment_embedding", "gamma", "beta"):
        there = seg or name != "segment_embedding"
        got[name + "_scale"] = scale(c) if there else None
        got[name + "_zero_point"] = c.fresh(t, [], const=True) if there else None
    return dict(got, _nout=2, _tol=10, _atol=1e-5)


@recipe("GatherBlockQuantized")
def gather_block_quantized(c):
    t = c.pick("T1", ("uint8", "int4", "uint4", "float8e4m3fn", "float8e5m2", "float4e2m1"))
    out = c.pick("T2", FULL)
    bits = c.choice([2, 4, 8]) if t == "uint8" else 4
    block = 16 if c.flag(0.7) else 32
    rank = c.int(2, 3)
    shape = [c.dim(1, 4) for _ in range(rank)]
    gather, axis = (0, rank - 1) if t == "uint8" else (c.int(0, rank - 1), c.int(0, rank - 1))
    shape[axis] = c.int(1, 40)
    if t == "uint8":
        shape[axis] = -(-shape[axis] * bits // 8) * 8 // bits
    scales = list(shape)
    scales[axis] = -(-shape[axis] // block)
    stored, zeros = list(shape), list(scales)
    if t == "uint8":
        stored[axis] = shape[axis] * bits // 8
        zeros[axis] = -(-scales[axis] * bits // 8)
        data = Value(c.rng.integers(0, 256, stored).astype(np.uint8), const=True)
        zero = c.maybe(lambda: Value(c.rng.integers(0, 256, zeros).astype(np.uint8), const=True))
    else:
        data = c.fresh(t, stored, const=True)
        zero = c.maybe(lambda: c.fresh(t, zeros, const=True)) if "int" in t else None
    n = shape[gather]
    back = lambda k: k - gather * 0 - rank if c.flag(0.3) else k
    return dict(data=data, indices=Value(c.rng.integers(-n, n, c.dims(0, 2, False)).astype(NUMPY[c.pick("Tind")])), scales=scale(c, scales, out), zero_points=zero,
                gather_axis=back(gather), quantize_axis=back(axis), block_size=block, bits=bits)


@recipe("QuantizeLinear")
def quantize(c):
    t = c.pick("T1", ("float",))
    out = c.pick("T2", ("int8", "uint8", "int16", "uint16"))
    return dict(x=c.any("T1"), y_scale=scale(c, high=1), y_zero_point=c.fresh(out, [], const=True), _quant=1, _t=t)


@recipe("DequantizeLinear")
def dequantize(c):
    x = c.any("T1", among=("int8", "uint8", "int16", "uint16", "int32"))
    c.bound["T2"] = "float"
    return dict(x=x, x_scale=scale(c), x_zero_point=c.maybe(lambda: c.fresh(x.type, [], const=True)) if x.type != "int32" else None)


# --- the rest


@recipe("Inverse")
def inverse(c):
    n = c.dim(1, 4)
    t = c.pick("T", ("float", "double"))
    a = c.array(t, c.dims(0, 2, False) + [n, n]) + 3 * np.eye(n)
    return dict(X=Value(a.astype(NUMPY[t])), _tol=10, _atol=1e-4)


@recipe("CDist")
def cdist(c):
    t = c.pick("T")
    k = c.dim(1, 5)
    return dict(A=c.fresh(t, [c.dim(1, 5), k]), B=c.fresh(t, [c.dim(1, 5), k]), metric=c.choice(["euclidean", "sqeuclidean"]), _tol=10, _atol=1e-4)


@recipe("Trilu")
def trilu(c):
    return dict(X=c.any("T", lo=2, hi=4, among=("float", "double", "int64")), k=c.maybe(lambda: Value(np.asarray(c.int(-3, 3), np.int64))), upper=c.maybe(lambda: c.int(0, 1)))


@recipe("Unique")
def unique(c):
    return dict(x=c.fresh("float", [c.int(1, 6)]), _nout=3)


@recipe("ExpandDims")
def expand_dims(c):
    x = c.any("T", among=("float", "int64", "int32"))
    return dict(X=x, axis=Value(np.asarray(c.int(-x.data.ndim - 1, x.data.ndim), np.int32), const=True))


@recipe("GatherND")
def gather_nd(c):
    x = c.any("T", lo=1, zero=False, among=("float", "int64"))
    k = c.int(1, x.data.ndim)
    return dict(data=x, indices=Value(np.stack([c.rng.integers(0, d, 3) for d in x.shape[:k]], -1).astype(np.int64)))


@recipe("Pad")
def pad(c):
    x = c.any("T", lo=1, zero=False, among=("float",))
    return dict(data=x, pads=Value(c.rng.integers(0, 3, 2 * x.data.ndim).astype(np.int64), const=True), value=c.maybe(lambda: c.fresh(x.type, [1])))


@recipe("GridSample")
def grid_sample(c):
    t = c.pick("T1", ("float",))
    b = c.dim(1, 2)
    c.bound["T2"] = t
    return dict(X=c.fresh(t, [b, c.dim(1, 2), c.int(1, 4), c.int(1, 4)]), Grid=Value(c.rng.uniform(-1.3, 1.3, (b, 3, 2, 2)).astype(np.float32)),
                mode=c.maybe(lambda: c.choice(["bilinear", "nearest", "bicubic"])), padding_mode=c.maybe(lambda: c.choice(["zeros", "border", "reflection"])), align_corners=c.maybe(lambda: c.int(0, 1)), _tol=10)
