"""Records what MXNet 1.9.1's np gives for some expressions: ../data/np_values.json. Those that it cannot are left out.

Run with a Python that has mxnet 1.9.1: ``python tests/oracle/record_np.py``.
"""
from __future__ import annotations

import json
import os
from pathlib import Path

os.environ["MXNET_MKLDNN_ENABLED"] = "0"
EXPRESSIONS = r"""
np.zeros((0,3)).sum(axis=0)
np.ones((2,0,3)).shape
np.zeros(())
np.array(3).shape
str(np.array([1,2,3]).dtype)
np.array([1,2,3],dtype='int32')+np.array([1,2,3],dtype='float32')
np.array([1,2],dtype='int32')/2
np.array([1,2],dtype='int32')*2.5
np.array([1,2],dtype='int64')+np.array([1,2],dtype='float16')
np.array([1,2],dtype='uint8')+np.array([1,2],dtype='int8')
np.array([True,False])+np.array([True,True])
np.array([1.,2.])>1.5
np.arange(4).reshape(2,2)@np.ones((2,2))
np.arange(6).reshape(2,3).T
np.arange(6).reshape((2,3)).mean(axis=1)
np.arange(6).reshape((2,3)).std()
np.arange(6).reshape((2,3)).var(axis=0,ddof=1)
np.concatenate([np.ones((2,1)),np.zeros((2,2))],axis=1)
np.stack([np.ones(2),np.zeros(2)],axis=-1)
np.split(np.arange(6),3)
np.array_split(np.arange(7),3)
np.hsplit(np.arange(6).reshape(1,6),2)
np.vsplit(np.arange(6).reshape(6,1),2)
np.dsplit(np.arange(8).reshape(2,2,2),2)
np.dot(np.arange(3),np.arange(3))
np.tensordot(np.ones((2,3)),np.ones((3,2)),1)
np.inner(np.arange(3),np.arange(3))
np.outer(np.arange(3),np.arange(2))
np.vdot(np.arange(3),np.arange(3))
np.kron(np.ones((2,2)),np.arange(2))
np.cross(np.array([1,0,0]),np.array([0,1,0]))
np.trace(np.eye(3))
np.tril(np.ones((3,3)))
np.triu(np.ones((3,3)),1)
np.tri(3)
np.diag(np.arange(3))
np.diagonal(np.arange(9).reshape(3,3))
np.diagflat(np.arange(2))
np.diag_indices_from(np.ones((2,2)))
np.flip(np.arange(3),0)
np.fliplr(np.arange(4).reshape(2,2))
np.flipud(np.arange(4).reshape(2,2))
np.roll(np.arange(4),1)
np.rot90(np.arange(4).reshape(2,2))
np.moveaxis(np.ones((2,3,4)),0,-1).shape
np.rollaxis(np.ones((2,3,4)),2).shape
np.swapaxes(np.ones((2,3)),0,1).shape
np.transpose(np.ones((2,3,4)),(1,0,2)).shape
np.expand_dims(np.ones(2),0).shape
np.squeeze(np.ones((1,2,1))).shape
np.atleast_1d(np.array(1.)).shape
np.atleast_2d(np.array(1.)).shape
np.atleast_3d(np.array(1.)).shape
np.vstack([np.ones(2),np.zeros(2)])
np.hstack([np.ones(2),np.zeros(2)])
np.dstack([np.ones(2),np.zeros(2)])
np.column_stack([np.ones(2),np.zeros(2)])
np.append(np.ones(2),np.zeros(1))
np.insert(np.arange(3),1,5)
np.delete(np.arange(3),1)
np.repeat(np.arange(2),2)
np.tile(np.arange(2),(2,2))
np.pad(np.ones((1,1)),1)
np.pad(np.arange(3),(1,2),mode='edge')
np.clip(np.arange(4),1,2)
np.cumsum(np.arange(4))
np.cumsum(np.arange(4).reshape(2,2),axis=1)
np.diff(np.array([1.,4.,9.]))
np.ediff1d(np.array([1.,4.,9.]))
np.prod(np.array([1.,2.,3.]))
np.max(np.arange(4))
np.amin(np.arange(4))
np.argmax(np.arange(4))
np.argsort(np.array([3.,1.,2.]))
np.sort(np.array([3.,1.,2.]))
np.lexsort((np.array([3.,1.,2.]),))
np.median(np.array([3.,1.,2.]))
np.percentile(np.arange(5),50)
np.quantile(np.arange(5),0.3)
np.average(np.array([1.,2.,3.]),weights=np.array([1.,0.,1.]))
np.histogram(np.arange(4),bins=2)
np.bincount(np.array([0,1,1],dtype='int64'))
np.unique(np.array([2.,1.,2.]),return_counts=True)
np.nonzero(np.array([0.,1.,2.]))
np.where(np.array([True,False]),np.ones(2),np.zeros(2))
np.where(np.array([0.,1.])>0)
np.isnan(np.array([1.,float('nan')]))
np.isfinite(np.array([1.,float('inf')]))
np.nan_to_num(np.array([1.,float('nan')]))
np.logical_and(np.array([True,False]),np.array([True,True]))
np.logical_not(np.array([1.,0.]))
np.bitwise_and(np.array([3],dtype='int32'),np.array([1],dtype='int32'))
np.equal(np.ones(2),np.array([1.,2.]))
np.array_equal(np.ones(2),np.ones(2))
np.allclose(np.ones(2),np.ones(2))
np.may_share_memory(np.ones(2),np.ones(2))
np.maximum(np.ones(2),2)
np.fmax(np.ones(2),2)
np.mod(np.array([5.,-5.]),3)
np.fmod(np.array([5.,-5.]),3)
np.remainder(np.array([5.,-5.]),3)
np.power(np.array([2.]),3)
np.arctan2(np.ones(1),np.ones(1))
np.hypot(np.ones(1),np.ones(1))
np.copysign(np.ones(1),-np.ones(1))
np.ldexp(np.ones(1),np.array([2.]))
np.lcm(np.array([4],dtype='int32'),np.array([6],dtype='int32'))
np.floor_divide(np.array([5.]),2)
np.true_divide(np.array([5],dtype='int32'),2)
np.around(np.array([1.26]),1)
np.rint(np.array([1.5]))
np.fix(np.array([-1.5]))
np.trunc(np.array([-1.5]))
np.sign(np.array([-1.5]))
np.absolute(np.array([-1.5]))
np.cbrt(np.array([8.]))
np.square(np.array([8.]))
np.reciprocal(np.array([8.]))
np.exp2(np.array([3.]))
np.expm1(np.array([0.]))
np.log1p(np.array([0.]))
np.log2(np.array([8.]))
np.degrees(np.array([3.]))
np.deg2rad(np.array([180.]))
np.sinh(np.array([0.]))
np.arange(3,dtype='int32')
np.arange(1,2,0.5)
np.linspace(0,1,5)
np.logspace(0,1,3)
np.full((2,),3)
np.full_like(np.ones(2),7)
np.zeros_like(np.ones(2,dtype='int32'))
np.ones_like(np.ones(2))
np.empty_like(np.ones(2)).shape
np.eye(2,3,1)
np.identity(2)
np.indices((2,2))
np.meshgrid(np.arange(2),np.arange(2))
np.hanning(4)
np.blackman(4)
np.unravel_index(np.array([3],dtype='int64'),(2,2))
np.take(np.arange(4),np.array([0,3],dtype='int64'))
np.einsum('ij,ij->i',np.ones((2,2)),np.ones((2,2)))
np.polyval(np.array([1.,2.]),np.array([3.]))
np.interp(np.array([1.5]),np.array([1.,2.]),np.array([3.,4.]))
np.resize(np.arange(2),(3,))
np.shape(np.ones((2,3)))
np.squeeze(np.ones((1,)))
np.any(np.array([0.,1.]))
np.all(np.array([0.,1.]))
np.linalg.norm(np.arange(4).reshape(2,2))
np.linalg.norm(np.arange(4).reshape(2,2),axis=1)
np.linalg.inv(np.array([[2.,0.],[0.,4.]]))
np.linalg.det(np.array([[2.,0.],[0.,4.]]))
np.linalg.slogdet(np.array([[2.,0.],[0.,4.]]))
np.linalg.cholesky(np.array([[4.,0.],[0.,9.]]))
np.linalg.solve(np.array([[2.,0.],[0.,4.]]),np.array([2.,4.]))
np.linalg.eigvalsh(np.array([[2.,0.],[0.,4.]]))
np.linalg.pinv(np.array([[2.,0.],[0.,4.]]))
np.linalg.svd(np.array([[2.,0.],[0.,4.]]))[1]
np.linalg.matrix_rank(np.array([[2.,0.],[0.,4.]]))
np.linalg.lstsq(np.array([[2.,0.],[0.,4.]]),np.array([2.,4.]),rcond=None)[0]
np.linalg.tensorinv(np.eye(4).reshape(2,2,2,2)).shape
np.arange(6).reshape(2,3).flatten()
np.arange(6).reshape(2,3).ravel()
np.arange(6).reshape(2,3).sum(axis=0,keepdims=True)
np.arange(6).reshape(2,3).cumsum(axis=0)
np.arange(6).reshape(2,3).argmax(axis=1)
np.arange(6).reshape(2,3).astype('int32')
np.arange(6).reshape(2,3).copy()
np.arange(6).reshape(2,3).item(2)
np.arange(6).reshape(2,3).tolist()
np.arange(6).reshape(2,3)[:,None].shape
np.arange(6).reshape(2,3)[...,1]
np.arange(6).reshape(2,3)[np.array([True,False])]
np.arange(6).reshape(2,3)[np.arange(6).reshape(2,3)>2]
np.arange(6)[np.array([1,2],dtype='int64')]
np.arange(6).nonzero()
np.array([3.,1.]).sort()
np.array([3.,1.]).argsort()
np.array([3.,1.]).round()
np.array([3.,1.]).clip(0,2)
np.array([3.,1.]).all()
np.array([3.,1.]).any()
np.array([3.,1.]).prod()
np.array([3.,1.]).dot(np.array([1.,1.]))
np.array([3.,1.]).repeat(2)
np.array([3.,1.]).tolist()
np.array([[3.,1.]]).diagonal()
np.array([[3.,1.]]).trace()
np.array([3.,1.]).nbytes
-np.array([3.,1.])
abs(np.array([-3.]))
2**np.array([1.,2.])
5%np.array([3.])
np.array([5],dtype='int32')//2
~np.array([True])
np.array([1],dtype='int32')^np.array([3],dtype='int32')
np.array([1.,2.])==np.array([1.,3.])
np.ones((2,3)).size
len(np.ones((2,3)))
bool(np.array(1.))
float(np.array([1.]))
np.array_split(np.arange(8).reshape(2,4),3,axis=1)
np.vsplit(np.arange(6).reshape(3,2),[1])
np.hsplit(np.arange(5),5)
np.split(np.arange(6),[1,4])
np.append(np.ones((1,2)),np.zeros((2,2)),axis=0)
np.insert(np.arange(6).reshape(2,3),1,np.array([8,9]),axis=1)
np.insert(np.arange(6).reshape(2,3),[0,2],np.ones((2,2)),axis=1)
np.insert(np.arange(5),slice(1,3),np.array([7,8]))
np.insert(np.arange(5),np.array([1,1,3],dtype='int64'),6.0)
np.delete(np.arange(12).reshape(3,4),slice(0,3,2),axis=1)
np.delete(np.arange(12).reshape(3,4),[0,2],0)
np.delete(np.arange(12).reshape(3,4),-1,axis=1)
np.percentile(np.arange(12).reshape(3,4),[10,50,90],axis=1)
np.percentile(np.arange(12).reshape(3,4),33.3,axis=(0,1),keepdims=True)
np.percentile(np.array([3.,1.,2.,5.]),40,interpolation='lower')
np.percentile(np.array([3.,1.,2.,5.]),40,interpolation='higher')
np.percentile(np.array([3.,1.,2.,5.]),40,interpolation='midpoint')
np.percentile(np.array([3.,1.,2.,5.]),40,interpolation='nearest')
np.quantile(np.array([3.,1.,2.,5.]),np.array([0.1,0.6]))
np.quantile(np.array([3,1,2],dtype='int32'),0.5)
np.polyval(np.array([1.,2.,3.]),np.array([0.,2.]))
np.ediff1d(np.array([1.,4.,9.]),to_begin=1,to_end=np.array([2.,3.]))
np.diff(np.arange(9).reshape(3,3)**2,n=2,axis=0)
np.diagflat(np.arange(4).reshape(2,2),k=1)
np.lcm(np.array([4,6],dtype='int32'),np.array([6,9],dtype='int32'))
np.lcm(np.array([4,6],dtype='int32'),10)
np.resize(np.arange(4),(2,3))
np.broadcast_arrays(np.ones((2,1)),np.ones(3))
np.fliplr(np.arange(6).reshape(2,3))
np.pad(np.arange(4).reshape(2,2),((1,0),(0,2)),mode='maximum')
np.pad(np.arange(4).reshape(2,2),1,mode='minimum')
np.average(np.arange(6).reshape(2,3),axis=1,weights=np.array([1.,2.,3.]),returned=True)
np.sum(np.ones((2,3)),axis=())
np.sum(np.ones((2,3)),axis=[0])
np.prod(np.array([True,True]))
np.array([True,False])*np.array([True,True])
np.linspace(0,1,5,retstep=True)
np.full((2,),True)
np.ones_like(np.ones(2),dtype='int32')
np.zeros_like(np.ones(2),dtype='float64')
np.empty_like(np.ones((2,3))).shape
np.hamming(4)
np.blackman(5)
np.hanning(1)
np.sometrue(np.array([0.,1.]))
np.round_(np.array([1.25,2.0]),1)
np.product(np.array([2.,3.]))
np.linalg.norm(np.arange(6).reshape(2,3),2)
np.linalg.norm(np.arange(6).reshape(2,3),-2)
np.linalg.norm(np.arange(6).reshape(2,3),'nuc')
np.linalg.norm(np.arange(12).reshape(2,3,2),2,axis=(0,2))
np.linalg.norm(np.arange(12).reshape(2,3,2),'nuc',axis=(2,1),keepdims=True)
np.linalg.svd(np.array([[2.,0.],[1.,3.]]))[1]
np.linalg.solve(np.array([[2.,1.],[1.,3.]]),np.array([1.,2.]))
np.linalg.pinv(np.arange(6).reshape(3,2))
np.linalg.tensorinv(np.eye(4).reshape(2,2,2,2)*2).shape
np.linalg.tensorsolve(np.eye(4).reshape(2,2,4)*2,np.ones((2,2)))
np.linalg.eigvals(np.array([[2.,0.],[0.,3.]]))
np.linalg.eigvalsh(np.array([[2.,1.],[1.,3.]]),UPLO='U')
np.arange(4)[np.array(2,dtype='int64')]
np.bincount(np.array([1,1,3],dtype='int64'),np.array([.5,1.,2.]),minlength=6)
np.unique(np.array([[3,1],[1,3]],dtype='int32'),True,True,True)
np.random.uniform(np.zeros(3),np.ones((2,1))).shape
np.random.gamma(np.ones(3),np.ones((2,1))).shape
np.random.multivariate_normal(np.zeros((3,2)),np.eye(2),size=(4,)).shape
np.random.gumbel(np.zeros(2),1.0,size=(4,2)).shape
npx.random.uniform_n(np.zeros(3),1.0,batch_shape=(2,)).shape
npx.random.bernoulli(logit=np.zeros(3)).shape
npx.constraint_check(np.array([True]))
bool(np.array([]))
np.NINF
np.broadcast_to(np.ones((1,3)),(0,3)).shape
np.tril(np.arange(1,4))
np.array([1.25,-0.35]).round(1)
np.mean(np.array([1.,2.,4.]),dtype='int32')
np.std(np.array([1.,2.,9.]),dtype='int64')
np.mean(np.array(3.),axis=0)
np.argmax(np.array(3.),axis=0)
np.linalg.eigh(np.array([[2.,9.],[1.,2.]]))[0]
np.linalg.eigh(np.array([[2.,9.],[1.,2.]]),UPLO='U')[0]
str(np.random.choice(5).dtype)
np.nan_to_num(np.array([np.nan]),out=np.zeros(1))
np.array([1,2],dtype='uint8')-(-1)
repr(np.ones(2,dtype='float64'))
repr(np.ones((),dtype='int64'))
repr(np.zeros((0,2),dtype='float64'))
nd.np._internal.where_lscalar(np.array([True,False]),np.array([1.,2.]),5.0)
nd.np._internal.where_rscalar(np.array([True,False]),np.array([1.,2.]),5.0)
nd.np._internal.where_scalar2(np.array([True,False]),x=5.0,y=3.0)
nd.np._internal.ldexp_scalar(np.array([1,3],dtype='int32'),scalar=3.0)
nd.np._internal.rldexp_scalar(np.array([1.,2.]),scalar=3.0)
[x.shape for x in nd.np._internal.split(np.ones((2,3)),indices=(0,1),axis=1)]
""".strip().split("\n")


def plain(value):
    """[dtype, shape, values] of an array; the same of each in a list."""
    import numpy
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    value = value.asnumpy() if hasattr(value, "asnumpy") else value
    if not hasattr(value, "dtype"):
        return value if isinstance(value, (int, float, bool, str, type(None))) else repr(value)
    value = numpy.asarray(value)
    return [str(value.dtype), list(value.shape), value.tolist()]


def main():
    from mxnet import nd, np, npx  # noqa: F401  the expressions use np
    npx.set_np()
    found = []
    for text in EXPRESSIONS:
        try:
            found.append([text, plain(eval(text))])
        except Exception as err:
            print("MXNet cannot:", text, str(err).strip().splitlines()[-1][:100])
    out = Path(__file__).resolve().parent.parent / "data" / "np_values.json"
    out.write_text("[\n" + ",\n".join(json.dumps(row) for row in found) + "\n]\n")


if __name__ == "__main__":
    main()
