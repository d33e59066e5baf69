"""Layers."""
from __future__ import annotations

from ...base.other_names import LAYERS as _LAYERS, hinted as _hinted
from ..block import Block
from ..hybrid_block import HybridBlock
from ..symbol_block import SymbolBlock
from .activations import ELU, GELU, SELU, Activation, LeakyReLU, PReLU, SiLU, Swish
from .basic_layers import (BatchNorm, BatchNormReLU, Concatenate, Concurrent, Dense, Dropout, Embedding, Flatten,
                           GroupNorm, HybridConcatenate, HybridConcurrent, HybridSequential, Identity, InstanceNorm,
                           LayerNorm, Sequential, SyncBatchNorm)
from .lambdas import HybridLambda, Lambda
from .conv_layers import (AvgPool1D, AvgPool2D, AvgPool3D, Conv1D, Conv1DTranspose, Conv2D, Conv2DTranspose, Conv3D,
                          Conv3DTranspose, GlobalAvgPool1D,
                          GlobalAvgPool2D, GlobalAvgPool3D, GlobalMaxPool1D, GlobalMaxPool2D, GlobalMaxPool3D,
                          MaxPool1D, MaxPool2D, MaxPool3D,
                          Pool2D, ReflectionPad2D)
from .transformer import (MultiHeadAttention, RMSNorm, RotaryPositions, SinusoidalPositions, SwiGLU,
                          TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer)

__all__ = ["Activation", "AvgPool1D", "AvgPool2D", "AvgPool3D", "BatchNorm", "BatchNormReLU", "Block", "Concatenate",
           "Concurrent", "Conv1D", "Conv1DTranspose", "Conv2D",
           "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "Dense", "Dropout", "ELU", "Embedding", "Flatten", "GELU",
           "GlobalAvgPool1D", "GlobalAvgPool2D",
           "GlobalAvgPool3D", "GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPool3D", "GroupNorm", "HybridBlock",
           "HybridConcatenate", "HybridConcurrent",
           "HybridLambda", "HybridSequential", "Identity", "InstanceNorm", "Lambda", "LayerNorm", "LeakyReLU",
           "MaxPool1D", "MaxPool2D", "MaxPool3D", "MultiHeadAttention", "PReLU", "Pool2D", "RMSNorm",
           "ReflectionPad2D", "RotaryPositions", "SELU", "Sequential", "SiLU", "SinusoidalPositions", "SwiGLU", "Swish",
           "SymbolBlock", "SyncBatchNorm", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
           "TransformerEncoderLayer"]

_hinted(globals(), _LAYERS)
