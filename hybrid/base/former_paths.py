"""Module names of earlier versions, and short ones, which import, too: ``import hybrid.kvstore`` gives
``hybrid.mxnet.kvstore``, ``import hybrid.np`` gives ``hybrid.numpy``.

Programs, and pickles of classes, name modules by the paths that they had before 0.2. A finder in ``sys.meta_path``
gives the module of today for a former name, and for modules of a package that is named by one.
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any, Sequence

# former name = present name, both below ``hybrid``
FORMER: dict[str, str] = dict(row.split("=") for row in """
    array=buffers.array callback=mxnet.callback checkpoint=mxnet.checkpoint codec=base.codec
    codegen.across=codegen.printers.rows.strided_access codegen.anchored=codegen.printers.anchored
    codegen.attention=codegen.printers.products.attention codegen.attention_few=codegen.printers.products.attention
    codegen.block_loop=codegen.program.block_loop codegen.blocked=codegen.printers.convolutions.blocked
    codegen.channels_in_lanes=codegen.printers.convolutions.channels_in_lanes codegen.choose=codegen.schedule.choose
    codegen.concat=codegen.printers.rows.concat codegen.contraction=codegen.printers.products.contraction
    codegen.convolution=codegen.schedule.convolution codegen.correlate=codegen.printers.convolutions.weight_gradient
    codegen.cuda_contraction=codegen.printers.cuda.contraction codegen.cuda_flat=codegen.printers.cuda.flat
    codegen.cuda_many=codegen.printers.cuda.many codegen.cuda_mma=codegen.printers.cuda.mma
    codegen.cuda_pieces=codegen.printers.cuda.pieces codegen.cuda_product=codegen.printers.cuda.product
    codegen.cuda_reduce=codegen.printers.cuda.reduce codegen.cuda_rows=codegen.printers.cuda.rows
    codegen.cuda_scatter=codegen.printers.cuda.scatter codegen.cuda_tile=codegen.printers.cuda.tile
    codegen.cumulate=codegen.printers.rows.cumulate codegen.declarations=ir.parse
    codegen.direct=codegen.printers.convolutions.pixels_in_lanes codegen.dots=codegen.printers.products.contraction
    codegen.epilogue=codegen.printers.products.epilogue codegen.gemv=codegen.printers.products.contraction
    codegen.helper_functions=codegen.program.helper_functions codegen.helpers=codegen.program.helper_functions
    codegen.image=codegen.printers.convolutions.padded_operand codegen.interleave=codegen.printers.rows.interleave
    codegen.kernel_deduplication=codegen.program.kernel_deduplication codegen.later=codegen.lazy_import
    codegen.local=codegen.program.local codegen.needed=codegen.program.tree_shaking
    codegen.one_hot_gather=codegen.schedule.one_hot_gather codegen.operand=codegen.printers.products.operand
    codegen.outlining=codegen.program.outlining codegen.packed=codegen.printers.convolutions.packed
    codegen.packed_batch_in_lanes=codegen.printers.convolutions.packed_batch_in_lanes
    codegen.packed_depthwise=codegen.printers.convolutions.packed_depthwise
    codegen.packed_images=codegen.printers.convolutions.packed_small_images
    codegen.packed_pictures=codegen.printers.convolutions.packed_batch_in_lanes
    codegen.packed_pool=codegen.printers.convolutions.packed_pool
    codegen.packed_small_images=codegen.printers.convolutions.packed_small_images
    codegen.packed_sparsity=codegen.printers.convolutions.packed_sparsity
    codegen.packed_winograd=codegen.printers.convolutions.packed_winograd
    codegen.packed_zeros=codegen.printers.convolutions.packed_sparsity codegen.packing=codegen.printers.products.packing
    codegen.padded_operand=codegen.printers.convolutions.padded_operand codegen.pairs=codegen.printers.rows.interleave
    codegen.panels=codegen.printers.products.packing codegen.picked=codegen.schedule.one_hot_gather
    codegen.pixels_in_lanes=codegen.printers.convolutions.pixels_in_lanes codegen.plain=codegen.program.plain
    codegen.pool=codegen.printers.convolutions.pool codegen.registers=codegen.printers.products.registers
    codegen.row_reductions=codegen.printers.rows.row_reductions codegen.row_stages=codegen.schedule.software_pipelining
    codegen.rowcall=codegen.printers.rows.rowcall codegen.rows=codegen.printers.rows.rows
    codegen.running=codegen.printers.rows.cumulate codegen.scan=codegen.printers.rows.scan
    codegen.scan_cuda=codegen.printers.cuda.scan codegen.shared=codegen.program.kernel_deduplication
    codegen.shift_and_add=codegen.printers.convolutions.shift_and_add
    codegen.software_pipelining=codegen.schedule.software_pipelining codegen.sort=codegen.printers.rows.sort
    codegen.sparsity=codegen.printers.products.sparsity codegen.spread=codegen.printers.convolutions.shift_and_add
    codegen.strided_access=codegen.printers.rows.strided_access codegen.tiling=codegen.schedule.tiling
    codegen.transforms=codegen.printers.convolutions.transforms codegen.tree_shaking=codegen.program.tree_shaking
    codegen.turned=codegen.printers.convolutions.channels_in_lanes
    codegen.weight_gradient=codegen.printers.convolutions.weight_gradient
    codegen.zeros=codegen.printers.products.sparsity
    collector=base.collector config=base.config contents=jit.fingerprint control_flow=nd.control_flow
    copies=nd.copies data_iter=mxnet.data_iter device=base.device dispatch=autograd.dispatch
    dtype=base.dtype dynamic=nd.dynamic engine=mxnet.engine entry=jit.compiled_call errors=base.errors
    executor=mxnet.executor extents=buffers.extents features=mxnet.features first_sight=jit.compile_policy
    forking=base.forking functions=nd.functions history=autograd.history host_function=autograd.host_function
    hybridize=jit.api indexing=base.indexing inference=graph.inference initializer=mxnet.initializer
    ir.pictures=ir.batch_in_lanes ir.running=ir.running_sums kvstore=mxnet.kvstore libinfo=mxnet.libinfo log=mxnet.log
    lower=graph.lower lr_scheduler=optimizer.lr_scheduler methods=nd.methods model=module.model
    monitor=mxnet.monitor names=base.names nd_draws=nd.draws nd_updates=nd.updates ndarray=nd
    numpy_extension=numpy.extension onnx=contrib.onnx.api operator=autograd.custom outside_draws=jit.foreign_rng
    partial_shapes=graph.partial_shapes passes.blocks=passes.minibatch_tiling passes.halves=passes.half_promotion
    passes.integers=passes.integer_products passes.joining=passes.fusion_legality passes.lasting=passes.frozen
    passes.orders=passes.axis_orders passes.pictures=passes.batch_in_lanes passes.together=passes.horizontal_fusion
    passes.way_back=passes.unpack profiler=mxnet.profiler quick=jit.fast_path random=base.rng
    random_functions=nd.random_functions recordio=serialize.recordio registry=base.registry
    runtime.prepared=runtime.prepacked scope=base.scope serialize.atomic=base.atomic stand_in=buffers.evict
    step_call=jit.fast_step subgraph=graph.subgraph surroundings=jit.free_variables symbol=graph.symbol
    symbol_inference=graph.symbol_inference symnode=graph.symnode tape=buffers.tape trace=jit.trace
    traced_function=autograd.traced_function traced_grad=autograd.traced_grad traced_indexing=nd.traced_indexing
    tree=base.pytree unevaluated=graph.unevaluated util=mxnet.util viz=mxnet.viz watch=buffers.derived
    writes=buffers.writes
    init=mxnet.initializer np=numpy npx=numpy.extension sym=graph.symbol
""".split())
_PREFIX = "hybrid."


class FormerPaths(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a module by the name that it had in an earlier version."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """The spec of a former name; None for every other name."""
        now = present(fullname)
        if now == fullname or now not in sys.modules and importlib.util.find_spec(now) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The module of today. The import system overwrites ``__spec__``, which ``exec_module`` puts back."""
        module = importlib.import_module(present(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restores what the import system changed: the module has run already, under its present name."""
        module.__spec__ = getattr(module.__spec__, "loader_state", None) or module.__spec__


def present(name: str) -> str:
    """The present full name of a module, which is itself or in a package named by a former or short name.

    >>> present("hybrid.kvstore"), present("hybrid.np.random")
    ('hybrid.mxnet.kvstore', 'hybrid.numpy.random')
    """
    package, rest = name[len(_PREFIX):], ""
    while package and name.startswith(_PREFIX):
        if package in FORMER:
            return _PREFIX + FORMER[package] + rest
        package, dot, last = package.rpartition(".")
        rest = dot + last + rest
    return name


def install(public: Sequence[str]) -> None:
    """Adds the finder, and enters modules that are loaded under their former names.

    A module that is entered here is not imported again, so that the import system sets no attribute of its parent:
    ``import hybrid.hybridize`` leaves the function ``hybrid.hybridize`` in place. Modules whose former name is a
    public name of the package are therefore loaded now.
    """
    if not any(isinstance(f, FormerPaths) for f in sys.meta_path):
        sys.meta_path.insert(0, FormerPaths())               # others would load a module of a package a second time
    for former, now in FORMER.items():
        module = importlib.import_module(_PREFIX + now) if former in public else sys.modules.get(_PREFIX + now)
        if module is not None:
            sys.modules.setdefault(_PREFIX + former, module)
