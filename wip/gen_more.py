# ---- LinearAttention: ORT, and for windows the text
def lin_text(q,k,v,hq,hk,rule,past=None,decay=None,beta=None,W=0):
    B,T,_=q.shape; d=q.shape[2]//hq; dv=v.shape[2]//hk; n=max(hq,hk)
    S=np.zeros((B,hk,d,dv)) if past is None else (past[-1] if W else past).astype(float).copy()
    y=np.zeros((B,T,n*dv)); win=np.zeros((W,B,hk,d,dv))
    for t in range(T):
        for b in range(B):
            for h_ in range(hk):
                kk=k[b,t].reshape(hk,d)[h_].astype(float); vv=v[b,t].reshape(hk,dv)[h_].astype(float)
                if decay is not None:
                    g=decay[b,t].reshape(hk,-1)[h_].astype(float); S[b,h_]*=np.exp(g)[:,None]
                u=vv
                if beta is not None:
                    be=float(beta[b,t][h_ if beta.shape[2]>1 else 0]); u=be*(vv-S[b,h_].T@kk)
                S[b,h_]+=np.outer(kk,u)
            for o in range(n):
                y[b,t,o*dv:(o+1)*dv]=q[b,t].reshape(hq,d)[o*hq//n].astype(float)@S[b,o*hk//n]/np.sqrt(d)
        if W and W-T+t>=0: win[W-T+t]=S
    return [y.astype(np.float32),(win if W else S).astype(np.float32)]
for rule in ['linear','gated','delta','gated_delta']:
    ga='gated' in rule; de='delta' in rule
    case('linear_attention_'+rule,'LinearAttention',[f(1,3,8),f(1,3,4)*.5,f(1,3,6),f(1,2,2,3),-abs(f(1,3,2)) if ga else None,abs(f(1,3,2))*.3 if de else None],dict(q_num_heads=4,kv_num_heads=2,update_rule=rule),nout=2)
case('linear_attention_more_key_heads','LinearAttention',[f(1,3,4),f(1,3,8)*.5,f(1,3,12),None,-abs(f(1,3,8)),abs(f(1,3,1))*.3],dict(q_num_heads=2,kv_num_heads=4),nout=2)
case('linear_attention_fp16','LinearAttention',[h16(f(1,2,4)),h16(f(1,2,4)*.5),h16(f(1,2,4))],dict(q_num_heads=2,kv_num_heads=2,update_rule='linear',scale=0.5),nout=2,rtol=2e-3,atol=1e-3)
for W,T_ in [(2,3),(4,2)]:
    q,k,v,pa,de,be=f(1,T_,4),f(1,T_,4)*.5,f(1,T_,4),f(W,1,2,2,2),-abs(f(1,T_,2)),abs(f(1,T_,2))*.3
    case(f'linear_attention_window_{W}','LinearAttention',[q,k,v,pa,de,be],dict(q_num_heads=2,kv_num_heads=2,state_window=W),outs=lin_text(q,k,v,2,2,'gated_delta',pa,de,be,W),origin=TEXT)
# ---- CausalConvWithState
C='CausalConvWithState'
case('causal_conv_silu','CausalConvWithState',[f(2,3,5),f(3,1,4),f(3),f(2,3,3)],dict(activation='silu'),nout=2)
case('causal_conv_dilation','CausalConvWithState',[f(1,2,5),f(2,1,3),f(2),f(1,2,4)],dict(dilation=2),nout=2)
case('causal_conv_channels_last','CausalConvWithState',[f(2,4,3),f(3,1,3),None,f(2,2,3)],dict(channels_last=1,activation='swish'),nout=2)
case('causal_conv_channels_last_axes','CausalConvWithState',[f(1,4,3,2),f(6,1,3),f(6),f(1,4,3,2)],dict(channels_last=1,dilation=2),nout=2)
case('causal_conv_one_position','CausalConvWithState',[f(2,3,1),f(3,1,4),f(3),f(2,3,3)],{},nout=2)
case('causal_conv_fp16','CausalConvWithState',[h16(f(1,3,3)),h16(f(3,1,2)),h16(f(3))],{},nout=2,rtol=2e-3,atol=1e-3)
def conv_text(x,w,b,past,W,dil=1):
    B,Ch,L=x.shape; K=w.shape[2]; S=(K-1)*dil
    z=np.concatenate([past[-1],x],2).astype(float)
    y=sum(w[:,0,j].astype(float)[None,:,None]*z[:,:,j*dil:j*dil+L] for j in range(K))+b[None,:,None]
    win=np.zeros((W,B,Ch,S))
    for j in range(W):
        n=L-W+j+1
        if n>0: win[j]=z[:,:,n:n+S]
    return [y.astype(np.float32),win.astype(np.float32)]
for W,L in [(2,3),(4,2)]:
    x,w,b,pa=f(1,2,L),f(2,1,3),f(2),f(W,1,2,2)
    case(f'causal_conv_window_{W}',C,[x,w,b,pa],dict(state_window=W),outs=conv_text(x,w,b,pa,W),origin=TEXT)
