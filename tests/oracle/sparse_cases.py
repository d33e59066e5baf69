"""Expressions with sparse arrays, evaluated under MXNet (record_sparse.py) and here (test_sparse.py); files of sparse
arrays."""
import numpy as np

A = np.array([[0, 0.5, 0], [0, 0, 0], [0.25, 0, -0.75], [0, 0, 2]], "float32")
B = np.array([[1, 2, 0], [0, 0, 0], [0, 0, 3], [0, 0, -4]], "float32")
BINARY = ["elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div", "broadcast_add", "broadcast_mul", "maximum",
          "power", "equal", "greater", "add", "subtract",
          "multiply", "add_n", "sparse.add", "sparse.subtract", "sparse.multiply", "sparse.divide", "ElementWiseSum"]
UNARY = ("abs arccosh arcsin arcsinh arctan arctanh cbrt ceil cos cosh degrees exp expm1 fix floor identity log1p "
         "make_loss negative ones_like radians relu rint round "
         "sigmoid sign sin sinh softmax sqrt square stop_gradient sum max mean norm tan tanh transpose trunc "
         "zeros_like flatten").split()
PAIRS = [("C", "C2"), ("R", "R2"), ("C", "D"), ("D", "C"), ("R", "D"), ("D", "R"), ("C", "R"), ("R", "C")]
TEXT = """
sp.csr_matrix(([1,2,3],[1,0,2],[0,1,1,3]))
sp.csr_matrix((np.array([1,2,3]),[1,0,2],[0,1,1,3]),shape=(3,4))
sp.csr_matrix((np.array([1,2,3],"f8"),[1,0,2],[0,1,1,3]),shape=(3,4))
sp.csr_matrix(([1,2,3],[1,0,2],[0,1,1,3]),shape=(3,4),dtype="int32")
sp.csr_matrix((nd.array([1,2,3]),nd.array([1,0,2]),nd.array([0,1,1,3])),shape=(3,4))
sp.csr_matrix((3,4))
sp.csr_matrix((3,4),dtype="float64")
sp.csr_matrix(A.astype("f8"))
sp.csr_matrix(A.tolist())
sp.csr_matrix(C,dtype="float64")
sp.csr_matrix(([],[],[0,0,0]),shape=(2,3))
sp.row_sparse_array(([[1,2],[3,4]],[1,4]))
sp.row_sparse_array(([[1,2],[3,4]],[1,4]),shape=(6,2))
sp.row_sparse_array((np.ones((2,2),"f8"),[1,4]),shape=(6,2))
sp.row_sparse_array((3,4,2))
sp.row_sparse_array(A.tolist())
sp.row_sparse_array(R)
sp.row_sparse_array(D,dtype="float64")
sp.row_sparse_array(([1,2],[1,4]))
sp.zeros("csr",(2,3))
sp.zeros("row_sparse",(2,3),dtype="float64")
sp.zeros("default",(2,3))
sp.empty("row_sparse",(2,))
nd.zeros((2,3),stype="csr")
nd.empty((2,3),stype="row_sparse",dtype="int32")
sp.array(C)
nd.array(R,dtype="float64")
nd.array(C,dtype="int32")
put(C,C*2)
put(C,D)
put(C,B)
put(R,D)
put(R,R*2)
change(C,"+=",C)
change(C,"*=",2)
change(C,"+=",1)
change(C,"+=",D)
change(C,"*=",D)
change(C,"/=",2)
change(R,"+=",R)
change(R,"+=",D)
change(R,"-=",2)
change(D,"+=",C)
change(D,"-=",R)
C+0
C-0
0-C
C*0
C==0
C==2
C!=0
R!=1
C>0
C>=0
C<-1
C<=0.5
0<R
2-C
R**2
C%2
-R
abs(C)
C+C
C-C2
C*C2
C/C
C*D
D*C
C+R
R-R2
R*R2
R*D
C*nd.ones((1,3))
C*nd.ones((4,1))
R*nd.ones((1,3))
C+nd.ones((3,))
C/(nd.ones((4,1))*2)
R/nd.ones((4,1))
nd.ones((1,3))*C
nd.broadcast_mul(C,nd.array([1,2,3]))
nd.broadcast_div(C,nd.array([1,2,4]))
sp.multiply(C,3)
sp.add(R,2)
C.copyto(D.copy())
D.copyto(C.copy())
R.copyto(D.copy())
C.copyto(sp.zeros("csr",(4,3),dtype="float64"))
C.copyto(mx.cpu())
C.as_in_context(mx.cpu())
C.astype("float64")
R.astype("int32")
D.tostype("csr")
C.tostype("default")
R.tostype("row_sparse")
nd.ones((2,)).tostype("row_sparse")
nd.ones((2,2,2)).tostype("row_sparse")
nd.array(B,dtype="uint8").tostype("row_sparse")
nd.cast_storage(D,"csr")
sp.cast_storage(R,stype="default")
C[2]
C[-1]
C[1:3]
C[:]
R[:]
nd.slice(C,(0,0),(3,2))
C.slice((1,),(3,))
C.slice_axis(axis=0,begin=0,end=2)
R.slice((0,0),(2,2))
nd.take(C,nd.array([3,0,2,3]))
nd.take(R,nd.array([0,2]))
nd.concat(C,C2,dim=0)
nd.concat(C,C,dim=1)
nd.concat(C,D,dim=0)
nd.stack(C,C)
nd.where(C,D,D*2)
nd.clip(C,-0.5,0.5)
sp.clip(R,-0.5,0.5)
nd.cast(C,"float64")
nd.sum(C,axis=0)
nd.sum(C,axis=1,keepdims=True)
nd.mean(R,axis=0)
nd.mean(C,axis=0,keepdims=True)
nd.mean(C,axis=-1)
nd.sum(R,keepdims=True)
nd.sum(C,axis=(0,1))
nd.sum(C,axis=0,exclude=True)
nd.norm(C,ord=1)
nd.norm(C,ord=1,axis=0)
nd.norm(R,ord=2,keepdims=True)
sp.norm(C,axis=1)
nd.Embedding(nd.array([0,2]),R,4,3)
nd.FullyConnected(C,nd.ones((2,3)),nd.zeros((2,)),num_hidden=2)
sp.retain(R,nd.array([0,2]))
sp.retain(R,nd.array([2,0]))
sp.retain(R,nd.array([1]))
sp.add_n(R,R2,R)
nd._internal._scatter_plus_scalar(R,scalar=1)
nd._internal._scatter_minus_scalar(C,scalar=1)
nd._internal._scatter_elemwise_div(R,D+9)
nd._internal._scatter_elemwise_div(R,R+0)
nd._internal._scatter_elemwise_div(C,D+9)
nd.contrib.getnnz(C)
nd.contrib.getnnz(C,axis=1)
sp.row_sparse_array(([1,2],[1,4]),shape=(6,))*2
nd.square(T)
nd.sum(T,axis=1)
T+T
T*nd.ones((3,2,2))
sp.retain(T,nd.array([0,2]))
sp.zeros("csr",(4,3))+C
R-sp.zeros("row_sparse",(4,3))
C.astype("float16")*2
C.astype("int32")+1
nd.take(C,nd.array([0,5]))
nd.take(C,nd.array([5]),mode="wrap")
nd.slice(C,begin=(None,1),end=(None,3))
nd.slice(C,begin=(1,0),end=(4,3),step=(2,1))
C[-3:-1]
nd.sum(C,axis=1,out=nd.zeros((4,)))
sp.elemwise_add(C,C,out=C.copy())
sp.square(R,out=R.copy())
nd.cast_storage(D,"csr",out=C.copy())
sp.dot(C,W)
sp.dot(C,V,transpose_a=True)
sp.dot(C,W.tostype("row_sparse"))
sp.dot(C,V.tostype("row_sparse"),transpose_a=True)
sp.dot(C,V,transpose_a=True,forward_stype="default")
sp.dot(C,W,forward_stype="csr")
sp.dot(C,W,forward_stype="row_sparse")
sp.dot(C,W.T,transpose_b=True)
sp.dot(nd.ones((2,4)),C,forward_stype="default")
sp.dot(nd.ones((2,3)),C,transpose_b=True)
sp.dot(nd.ones((4,2)),C,transpose_a=True)
sp.dot(C,C.T)
sp.dot(C,C,transpose_a=True)
sp.dot(R,W)
sp.dot(C.astype("float64"),W.astype("float64"))
sp.dot(sp.zeros("csr",(4,3)),V,transpose_a=True)
nd.dot(C,W)
grad("w",lambda: sp.dot(C,w),w=W)
grad("w",lambda: sp.dot(C,w),w=(W,"row_sparse"))
grad("w",lambda: sp.dot(C,w),w=(W,"csr"))
grad("v",lambda: sp.dot(C,v,transpose_a=True),v=(V,"row_sparse"))
grad("w",lambda: sp.dot(C,w)*sp.dot(C,w),w=W)
grad("w",lambda: sp.dot(C,w),w=W.tostype("row_sparse"))
grad("c",lambda: sp.dot(c,w),c=C,w=W)
grad("c",lambda: c*2,c=C)
grad("c",lambda: c*2,c=(C,"default"))
grad("c",lambda: nd.sin(c),c=C)
grad("c",lambda: nd.square(c),c=C)
grad("r",lambda: nd.exp(r),r=R)
grad("r",lambda: nd.tanh(r),r=(R,"default"))
grad("r",lambda: r+r,r=R)
grad("r",lambda: r*D,r=R)
grad("c",lambda: c*c,c=C)
grad("c",lambda: c[0:2],c=C)
grad("c",lambda: nd.sum(c,axis=1),c=C)
grad("c",lambda: c.tostype("default"),c=C)
grad("r",lambda: sp.retain(r,nd.array([1,2])),r=R)
grad("d",lambda: d.tostype("csr"),d=D)
grad("d",lambda: d.tostype("row_sparse")*2,d=D)
grad("d",lambda: d*C,d=(D,"row_sparse"))
grad("w",lambda: nd.contrib.SparseEmbedding(nd.array([0,2,0]),w,3,2),w=W.tostype("row_sparse"))
grad("w",lambda: nd.Embedding(nd.array([0,2,0]),w,3,2,sparse_grad=True),w=(W,"row_sparse"))
asked(lambda: sp.dot(C,w),w=W)
trained("sgd",wd=.1)
trained("sgd",wd=.1,momentum=.9)
trained("sgd",wd=.1,momentum=.9,lazy_update=False)
trained("adam",wd=.1)
trained("adam",wd=.1,lazy_update=False)
trained("adagrad")
trained("ftrl",wd=.1)
trained("nag",momentum=.9,wd=.1)
embedded("sgd",wd=.1,momentum=.9)
embedded("adam",learning_rate=.1)
embedded("adam",learning_rate=.1,lazy_update=False)
updated("sgd_update","default",0,wd=.1)
updated("sgd_update","row_sparse",0,wd=.1)
updated("sgd_update","default",0,wd=.1,lazy_update=False)
updated("sgd_mom_update","default",1,wd=.1,momentum=.9)
updated("adam_update","default",2,wd=.1)
updated("adam_update","row_sparse",2,wd=.1)
updated("ftrl_update","default",2,wd=.1)
updated("adagrad_update","default",1)
pulled()
"""
EXPRESSIONS = TEXT.strip().splitlines()
OPERATORS = {**{n: [f"nd.{n}({x})" for x in ("C", "R")] for n in UNARY},
             **{n: [f"nd.{n}({x},{y})" for x, y in PAIRS] for n in BINARY}}
CASES = [*EXPRESSIONS, *(text for texts in OPERATORS.values() for text in texts)]

FILES = {
    "csr": lambda mx: mx.nd.array(A).tostype("csr"),
    "row_sparse": lambda mx: [mx.nd.array(A).tostype("row_sparse")],
    "empty": lambda mx: [mx.nd.sparse.zeros("csr", (2, 3)), mx.nd.sparse.zeros("row_sparse", (2, 3, 2))],
    "named": lambda mx: {"w": mx.nd.array(B, dtype="float64").tostype("csr"), "dense": mx.nd.ones((2,)),
                         "r": mx.nd.ones((2, 1, 2), dtype="float16").tostype("row_sparse")},
}


def spread(nd, mx):
    """The names that expressions use."""
    a, b = nd.array(A), nd.array(B)
    return {"A": A, "B": B, "C": a.tostype("csr"), "R": a.tostype("row_sparse"), "D": b, "C2": b.tostype("csr"),
            "R2": nd.array(np.roll(B, 1, 0)).tostype("row_sparse"),
            "W": nd.array(np.arange(6).reshape(3, 2) + 1), "V": nd.array(np.arange(8).reshape(4, 2) + 1),
            "T": nd.array(np.arange(12).reshape(3, 2, 2) * [[[0]], [[1]], [[2]]]).tostype("row_sparse"),
            "nd": nd, "sp": nd.sparse, "np": np, "mx": mx}


def outcome(text, mx):
    """Storage type, dtype, shape, elements and places of what an expression gives."""
    names = spread(mx.nd, mx)
    names.update({f.__name__: (lambda f: lambda *a, **k: f(names, *a, **k))(f)
                  for f in (put, change, grad, asked, trained, embedded, updated, pulled)})
    x = eval(text, names)                                              # noqa: S307  the expressions of this file
    out = {"stype": x.stype, "dtype": np.dtype(x.dtype).name, "shape": list(x.shape),
           "values": x.asnumpy().astype(float).round(6).tolist()}
    if x.stype == "csr":
        ends = x.indptr.asnumpy()
        out["indptr"] = ends.tolist()
        out["indices"] = [sorted(row.tolist()) for row in np.split(x.indices.asnumpy()[:ends[-1]], ends[1:-1])]
    elif x.stype == "row_sparse":
        out["indices"] = x.indices.asnumpy().tolist()
    return out


def put(names, x, value):
    """x[:] = value."""
    x = x.copy()
    x[:] = value
    return x


def change(names, x, operator, value):
    """x += value and the like."""
    own = {"x": x.copy(), "value": value}
    exec(f"x {operator} value", own)                                   # noqa: S102
    return own["x"]


def _variables(names, given):
    for name, x in given.items():
        x, stype = x if isinstance(x, tuple) else (x, None)
        names[name] = x.copy()
        names[name].attach_grad(stype=stype)


def grad(names, of, function, **given):
    """Gradient of a variable, by numbers 1, 2, … behind the result."""
    mx = names["mx"]
    _variables(names, given)
    with mx.autograd.record():
        y = function()
    y.backward(mx.nd.array(np.arange(1.0, 1 + int(np.prod(y.shape))).reshape(y.shape)))
    return names[of].grad


def asked(names, function, **given):
    """What autograd.grad gives."""
    mx = names["mx"]
    _variables(names, given)
    with mx.autograd.record():
        y = function()
    return mx.autograd.grad(y, [names[k] for k in given])[0]


def _gradient(nd):
    return nd.array([[0, 0], [1, 2], [0, 0], [-1, 1.]]).tostype("row_sparse")


def trained(names, name, **options):
    """A weight after two updates by a row_sparse gradient."""
    nd, optimizer = names["nd"], names["mx"].optimizer.create(name, learning_rate=.1, **options)
    w = names["V"].copy()
    state = optimizer.create_state(0, w)
    for _ in range(2):
        optimizer.update(0, w, _gradient(nd), state)
    return w


def embedded(names, name, **options):
    """The weight of an Embedding with sparse_grad after two steps."""
    mx, nd = names["mx"], names["nd"]
    net = mx.gluon.nn.Embedding(5, 2, sparse_grad=True)
    net.initialize(mx.init.One())
    trainer = mx.gluon.Trainer(net.collect_params(), name, options)
    for ids in ([1, 3, 1], [3, 4]):
        with mx.autograd.record():
            y = net(nd.array(ids))
        y.backward()
        trainer.step(1)
    return net.weight.data()


def updated(names, name, stype, states, **options):
    """A weight after one call of an update operator with a row_sparse gradient, and its states added to it."""
    nd = names["nd"]
    w, held = names["V"].tostype(stype), [(names["V"] * 0 + 1).tostype(stype) for _ in range(states)]
    getattr(nd.sparse, name)(w, _gradient(nd), *held, lr=.1, out=w, **options)
    return sum([h.tostype("default") for h in held], w.tostype("default"))


def pulled(names):
    """row_sparse_pull of some rows."""
    mx = names["mx"]
    kv, out = mx.kv.create("local"), mx.nd.sparse.zeros("row_sparse", (4, 3))
    kv.init("e", names["R"])
    kv.row_sparse_pull("e", out=out, row_ids=mx.nd.array([0, 3, 0]))
    return out
