import numpy as np, onnx, onnxruntime as ort
from onnx import helper as h, TensorProto as T, numpy_helper as nh
so=ort.SessionOptions(); so.log_severity_level=4; so.graph_optimization_level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL
def run(kind, ins, nout, attrs, domain='com.microsoft', names=None):
    """ins: list of arrays or None"""
    names=[f'i{k}' if a is not None else '' for k,a in enumerate(ins)]
    outs=[f'o{k}' for k in range(nout)]
    node=h.make_node(kind,names,outs,domain=domain,**attrs)
    vi=[h.make_tensor_value_info(n,h.np_dtype_to_tensor_dtype(a.dtype),a.shape) for n,a in zip(names,ins) if a is not None]
    g=h.make_graph([node],'g',vi,[h.make_tensor_value_info(o,T.UNDEFINED,None) if False else onnx.ValueInfoProto(name=o) for o in outs])
    m=h.make_model(g,opset_imports=[h.make_opsetid('',21),h.make_opsetid('com.microsoft',1)],ir_version=10)
    s=ort.InferenceSession(m.SerializeToString(),so,providers=['CPUExecutionProvider'])
    return s.run(None,{n:a for n,a in zip(names,ins) if a is not None})
