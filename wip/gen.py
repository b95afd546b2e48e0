"""Cases of operators of com.microsoft in the conformance format; the oracle is ONNX Runtime's CPU or the operator's text in numpy."""
import sys, os, shutil; sys.path.insert(0,'/tmp/w'); sys.path.insert(0,'/work/main/build/deps/python')
from orac import *
import ml_dtypes
from onnx import numpy_helper as nh
OUT=sys.argv[1]; rows=[]
bf=ml_dtypes.bfloat16; f8=ml_dtypes.float8_e4m3fn
TYPES={np.dtype(np.float32):1,np.dtype(np.uint8):2,np.dtype(np.int32):6,np.dtype(np.int64):7,np.dtype(np.float16):10,np.dtype(bf):16,np.dtype(f8):17}
WORD={1:'float',2:'uint8',6:'int32',7:'int64',10:'float16',16:'bfloat16',17:'float8e4m3fn'}
def tp(a,name=''):
    t=onnx.TensorProto(name=name,dims=a.shape,data_type=TYPES[a.dtype]); t.raw_data=np.ascontiguousarray(a).tobytes(); return t
def case(name,kind,ins,attrs,outs=None,nout=None,origin=None,rtol=1e-3,atol=1e-5,weights=(),free=False):
    names=[f'i{k}' if a is not None else '' for k,a in enumerate(ins)]
    if outs is None:
        outs=run(kind,ins,nout,attrs); origin='ONNX Runtime 1.31.1'
    onames=[f'o{k}' for k in range(len(outs))]
    node=h.make_node(kind,names,onames,domain='com.microsoft',**attrs)
    live=[k for k,a in enumerate(ins) if a is not None and k not in weights]
    vi=[h.make_tensor_value_info(names[k],TYPES[ins[k].dtype],[None]*ins[k].ndim if free else ins[k].shape) for k in live]
    vo=[h.make_tensor_value_info(n,TYPES[a.dtype],[None]*a.ndim if free else a.shape) for n,a in zip(onames,outs)]
    g=h.make_graph([node],'g',vi,vo,initializer=[tp(ins[k],names[k]) for k in weights])
    m=h.make_model(g,opset_imports=[h.make_opsetid('',21),h.make_opsetid('com.microsoft',1)],ir_version=10)
    d=f'{OUT}/extra/test_ms_{name}'; shutil.rmtree(d,ignore_errors=True); os.makedirs(d+'/test_data_set_0')
    onnx.save(m,d+'/model.onnx')
    for j,k in enumerate(live): open(f'{d}/test_data_set_0/input_{j}.pb','wb').write(tp(ins[k],names[k]).SerializeToString())
    for j,a in enumerate(outs): open(f'{d}/test_data_set_0/output_{j}.pb','wb').write(tp(a,onames[j]).SerializeToString())
    size=sum(os.path.getsize(os.path.join(r,f)) for r,_,fs in os.walk(d) for f in fs)
    rows.append('\t'.join(['extra','test_ms_'+name,kind,'ai.onnx:21,com.microsoft:1',','.join(WORD[TYPES[ins[k].dtype]] for k in live),str(size),','.join(WORD[TYPES[a.dtype]] for a in outs),'1',str(rtol),str(atol),'-',origin]))
r=np.random.default_rng(7)
f=lambda *s: r.standard_normal(s).astype(np.float32)
h16=lambda a:a.astype(np.float16)
TEXT="the operator's text, in numpy"
# ---- gate
case('linear_attention_gate','LinearAttentionGate',[f(2,3,4),f(4),f(4),f(2,3,4)],{},nout=2)
case('linear_attention_gate_no_beta','LinearAttentionGate',[f(2,3,4)*20,f(4),f(4)],{},nout=1)
case('linear_attention_gate_fp16','LinearAttentionGate',[h16(f(1,3,4)),f(4),f(4),h16(f(1,3,4))],{},nout=2)
# ---- gated rms
case('gated_rms_norm_silu','GatedRMSNorm',[f(2,3,8),f(4),f(2,3,8)],{},nout=1)
case('gated_rms_norm_sigmoid','GatedRMSNorm',[f(3,8),f(8),f(3,8)],dict(activation='sigmoid',epsilon=0.1),nout=1)
case('gated_rms_norm_swish_fp16','GatedRMSNorm',[h16(f(2,12)),h16(f(3)),h16(f(2,12))],dict(activation='swish'),nout=1,rtol=2e-3,atol=1e-3)
case('linear_attention_gate_free','LinearAttentionGate',[np.concatenate([f(2,2,4)*30,f(2,1,4)],1),f(4),f(4),f(2,3,4)],{},nout=2,free=True)
case('linear_attention_gate_free_no_beta','LinearAttentionGate',[h16(f(2,3,4)),f(4),f(4)],{},nout=1,free=True,rtol=2e-3,atol=1e-3)
case('gated_rms_norm_free','GatedRMSNorm',[f(2,3,8),f(4),f(2,3,8)],{},nout=1,free=True)
case('gated_rms_norm_free_sigmoid','GatedRMSNorm',[h16(f(3,8)),h16(f(8)),h16(f(3,8))],dict(activation='sigmoid'),nout=1,free=True,rtol=2e-3,atol=1e-3)
# ---- fp8, fp4
def fp8(name,dt,m,n,k,bs,ascale=False,bias=False):
    a=f(*m,k).astype(dt); b=f(n,k).astype(f8); s=np.abs(f(n,-(-k//bs)))
    w=b.astype(np.float32)*np.repeat(s,bs,1)[:,:k]; x=a.astype(np.float32); sc=None
    if ascale: sc=np.array([0.05],np.float32); x=(np.clip(x/sc,-448,448)).astype(f8).astype(np.float32)*sc
    y=x.astype(np.float64)@w.T.astype(np.float64); bi=f(n).astype(dt) if bias else None
    if bias: y=y+bi.astype(np.float64)
    case(name,'MatMulBlockQuantizedFp8Weight',[a,b,s,sc,bi],dict(block_size=bs),outs=[y.astype(np.float32).astype(dt)],origin=TEXT,rtol=8e-3 if dt is bf else 2e-3,atol=1e-2,weights=(1,2))
fp8('matmul_fp8_weight',np.float16,(2,3),5,20,8,bias=True)
fp8('matmul_fp8_weight_a_scale',bf,(3,),4,16,16,ascale=True)
def fp4(name,dt,m,n,k,bs,bias=False,weights=(1,2,3)):
    a=f(*m,k).astype(dt); b=r.integers(0,256,(n,k//2)).astype(np.uint8)
    s=np.abs(f(n,-(-k//bs))).astype(f8); g=np.array(0.3,np.float32)
    table=np.array([0,.5,1,1.5,2,3,4,6,-0.,-.5,-1,-1.5,-2,-3,-4,-6],np.float32)
    w=np.stack([table[b&15],table[b>>4]],-1).reshape(n,k)*(g*np.repeat(s.astype(np.float32),bs,1)[:,:k])
    y=a.astype(np.float64)@w.astype(dt).astype(np.float64).T; bi=f(n).astype(dt) if bias else None
    if bias: y=y+bi.astype(np.float64)
    case(name,'MatMulBlockQuantizedFp4Weight',[a,b,s.view(np.uint8),g,None,bi],dict(block_size=bs),outs=[y.astype(np.float32).astype(dt)],origin=TEXT,rtol=1e-2 if dt is bf else 2e-3,atol=5e-2 if dt is bf else 1e-2,weights=weights)
fp4('matmul_fp4_weight',np.float16,(2,3),5,32,16,bias=True)
fp4('matmul_fp4_weight_bf16',bf,(3,),4,20,8,weights=())
exec(open('/tmp/w/gen_more.py').read()) if os.path.exists('/tmp/w/gen_more.py') else None
open(f'{OUT}/manifest.tsv','w').write('kind\tcase\tops\topset\tin_dtypes\tbytes\tout_dtypes\tsets\trtol\tatol\tflags\torigin\n'+'\n'.join(rows)+'\n')
print(len(rows), max(int(x.split('\t')[5]) for x in rows))
