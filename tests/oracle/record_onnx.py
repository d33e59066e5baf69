"""Write tests/data/onnx_torch.zip: small networks as ONNX files from PyTorch's exporter, with PyTorch's own results.

Run with a Python that has torch and onnx: python record_onnx.py
"""
from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, width: int = 16, heads: int = 4):
        super().__init__()
        self.qkv, self.out, self.heads, self.norm = nn.Linear(width,
                                                              3 * width), nn.Linear(width,
                width), heads, nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))

    def forward(self, x):
        batch, steps, width = x.shape
        q, k, v = (z.view(batch, steps, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm(x)).chunk(3, -1))
        weights = (q @ k.transpose(-1, -2) / 2).softmax(-1)
        y = x + self.out((weights @ v).transpose(1, 2).reshape(batch, steps, width))
        return y + self.mlp(y)


class Recurrent(nn.Module):
    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 8, 3,
                                           padding=1), nn.Conv2d(8, 8, 3, 2, 1), nn.ConvTranspose2d(8, 8, 4, 2, 1)
        self.d, self.norm = nn.Conv2d(24, 4, 1), nn.GroupNorm(2, 8)

    def forward(self, x):
        a = F.leaky_relu(self.a(x))
        b = F.silu(self.norm(self.b(a)))
        up = F.interpolate(b, scale_factor=2, mode="bilinear",
                           align_corners=False) * F.interpolate(b, size=a.shape[2:], mode="nearest")
        return self.d(torch.cat([a, self.c(b), up], 1))


class Shuffle(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(8, 8, 3, padding=1, groups=4, bias=False), nn.BatchNorm2d(8)

    def forward(self, x):
        n, c, h, w = x.shape
        y = self.norm(self.conv(x)).view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        y = F.hardswish(y) * F.hardsigmoid(F.adaptive_avg_pool2d(y, 1))
        y = F.max_pool2d(y, 3, 2, 1, ceil_mode=True) + F.avg_pool2d(y, 3, 2, 1, ceil_mode=True, count_include_pad=False)
        return F.pixel_shuffle(y, 2), F.elu(y).view(n, -1), F.normalize(y, dim=1)


class Indexing(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.slope = nn.Embedding(20, 6), nn.PReLU(6)

    def forward(self, i):
        y = self.slope(self.table(i).transpose(1, 2))
        z = F.pad(torch.where(y > y.mean((1,), keepdim=True), y, torch.zeros_like(y)), (1, 2), value=0.5)
        return (z[:, 1:, ::2].amax(-1), z.flatten(1).std(1), torch.clamp(z, -0.3, 0.4).sum(-1).abs().sqrt(), z[:, -1],
                torch.einsum("bij,bkj->bik", y, y),
                y.pow(2).cumsum(-1), F.log_softmax(y, 1))


torch.manual_seed(0)
# name, network, input, opset, the axis whose length is left open (None: no length is)
CASES = [("attention", Attention(), torch.rand(2, 5, 16), 17, 0),
         ("lstm", Recurrent(nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True)), torch.rand(2, 4, 6), 13, 0),
         ("gru", Recurrent(nn.GRU(6, 5, 2)), torch.rand(4, 2, 6), 9, 1),
         ("rnn", Recurrent(nn.RNN(6, 5, nonlinearity="relu")), torch.rand(4, 2, 6), 18, None),
         ("unet", UNet(), torch.rand(1, 3, 16, 16), 11, None), ("shuffle", Shuffle(), torch.rand(2, 8, 9, 9), 13, 0),
         ("indexing", Indexing(), torch.randint(0, 20, (2, 7)), 18, 0)]


def main() -> None:
    target = Path(__file__).parent.parent / "data" / "onnx_torch.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for name, net, x, opset, axis in CASES:
            file = io.BytesIO()
            net.eval()
            torch.onnx.export(net, (x,), file, opset_version=opset, dynamo=False, input_names=["x"],
                              dynamic_axes=None if axis is None else {"x": {axis: "n"}})
            results = net(x)
            results = results if isinstance(results, tuple) else (results,)
            arrays = io.BytesIO()
            np.savez(arrays, x=x.numpy(), axis=-1 if axis is None else axis,
                     **{f"y{k}": y.detach().numpy() for k, y in enumerate(results)})
            out.writestr(f"{name}.onnx", file.getvalue())
            out.writestr(f"{name}.npz", arrays.getvalue())


if __name__ == "__main__":
    main()
