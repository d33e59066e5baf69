"""Networks for devices without an operating system: on a Cortex-M4 in QEMU they give the numbers that the same C gives
on this machine, with no heap, no input and output, and no double."""
from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.export import export_c
from hybrid.export.__main__ import main
from hybrid.gluon import nn

from ..gluon import golden_models
from ..c_tools import STRICT
from .test_export_c import Encoder, Text

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
ARM = pytest.mark.skipif(not all(map(shutil.which, ("arm-none-eabi-gcc", "qemu-system-arm", "make"))),
                         reason="needs arm-none-eabi-gcc, qemu-system-arm and make")
# what no device has, and what doubles are computed by where the processor has none
UNWANTED = re.compile(r" [TtWU] _*(malloc|calloc|free|sbrk|printf|puts|fopen|fwrite|write|pthread\w*|"
                      r"aeabi_(?:d\w+|\w+2d|l\w+|ul\w+|f2lz|f2ulz))$", re.MULTILINE)
DRIVER = """
#include "@name@.h"
#ifdef __arm__
#include "semihosting.h"
#else
#include <stdio.h>
static void print_bits(float x) { union { float f; unsigned u; } b; b.f = x; printf("%08x", b.u); }
static void print_text(const char *text) { fputs(text, stdout); }
#endif
__asm__(".section .rodata\\n.balign 8\\n.globl given\\ngiven: .incbin \\"given.bin\\"\\n.text");
extern const @type@ given[];
int main(void) {
  static float y[@outputs@];
  for (int i = 0; i < @count@; i++) {
    @name@_run(given + i * @inputs@, y);
    for (int k = 0; k < @outputs@; k++) print_bits(y[k]);
    print_text("\\n");
  }
  return 0;
}
"""


def driver(folder: Path, name: str, given: np.ndarray, outputs: int) -> None:
    """A program that runs a network on several inputs and prints the bits of its outputs."""
    given.tofile(folder / "given.bin")
    text = DRIVER.replace("@name@", name).replace("@count@", str(len(given))).replace("@outputs@", str(outputs))
    kind = {"float32": "float", "int32": "int32_t"}[given.dtype.name]
    (folder / "driver.c").write_text(text.replace("@inputs@", str(given[0].size)).replace("@type@", kind))


def numbers(text: str) -> np.ndarray:
    """What a driver printed."""
    return np.array([[int(line[i:i + 8], 16) for i in range(0, len(line), 8)] for line in text.split()],
                    np.uint32).view(np.float32)


def here(folder: Path, name: str) -> np.ndarray:
    """The driver's numbers on this machine, compiled without a warning."""
    flags = [*STRICT, "-O2", "-ffp-contract=off", "-fno-math-errno", "-Wno-pedantic"]
    subprocess.run(["gcc", *flags, "driver.c", f"{name}.c", "-lm", "-o", "here"], cwd=folder, check=True)
    return numbers(subprocess.run(["./here"], cwd=folder, capture_output=True, text=True, check=True).stdout)


def there(folder: Path) -> tuple[np.ndarray, int, int]:
    """The driver's numbers on the emulated device, and bytes of flash and of RAM."""
    make = ["make", "-s", "MAIN=driver.c"]
    built = subprocess.run(make, cwd=folder, capture_output=True, text=True, timeout=100)
    assert (built.returncode, built.stderr) == (0, ""), built.stderr[:2000]
    symbols = subprocess.run(["arm-none-eabi-nm", "driver.elf"], cwd=folder, capture_output=True, text=True).stdout
    assert "T main" in symbols and not UNWANTED.findall(symbols), UNWANTED.findall(symbols)
    done = subprocess.run([*make, "run"], cwd=folder, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done
    sizes = subprocess.run([*make, "size"], cwd=folder, capture_output=True, text=True).stdout.split()
    text, data, bss = map(int, sizes[6:9])
    return numbers(done.stdout + done.stderr), text + data, data + bss


def counted(folder: Path, word: str) -> int:
    """A size that the header says."""
    (header,) = (p for p in folder.glob("*.h") if p.stem not in ("semihosting",) and "_weights" not in p.stem)
    found = re.search(rf"_{word}_BYTES (\d+)", header.read_text())
    assert found is not None
    return int(found[1])


@pytest.fixture
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LeNet of the digits in int8."""
    folder = tmp_path_factory.mktemp("lenet")
    net, pixels, _, _ = golden_models.lenet(mx.cpu())
    export_c(net, folder, (1, 1, 28, 28), name="lenet", device=True, int8=[pixels[i:i + 1] for i in range(20)])
    driver(folder, "lenet", pixels.asnumpy(), 10)
    return folder


def test_lenet_in_int8_reads_the_digits(digits: Path) -> None:
    _, _, labels, logits = golden_models.lenet(mx.cpu())
    y = here(digits, "lenet")
    assert int((y.argmax(1) == labels).sum()) >= 335                     # 338 in float32
    assert np.abs(y - logits).mean() < 0.05 * np.abs(logits).mean()
    text = (digits / "lenet_weights.h").read_text()
    assert text.count("static const int8_t") == 5 and not re.search(r"\bdouble\b", text)
    assert counted(digits, "WORKSPACE") < 8192 and counted(digits, "WEIGHT") < 50_000


@ARM
def test_lenet_in_int8_on_a_cortex_m4(digits: Path) -> None:
    y, flash, ram = there(digits)
    assert np.array_equal(y.view(np.uint32), here(digits, "lenet").view(np.uint32))
    assert flash - 360 * 784 * 4 < 56_000 and ram < 9_000, (flash, ram)  # without the digits themselves


@ARM
def test_a_dense_network_on_a_cortex_m4(tmp_path: Path) -> None:
    """In float32: Python's numbers, 16 KB of weights, 3 KB of code."""
    net = nn.HybridSequential()
    net.add(nn.Dense(64, activation="tanh", in_units=32), nn.Dense(32, activation="relu"), nn.Dense(4))
    net.initialize(mx.init.Xavier())
    x = np.random.RandomState(1).randn(40, 32).astype(np.float32)
    wanted = net(nd.array(x)).asnumpy()
    net.export_c(tmp_path, (1, 32), name="mlp", device=True)
    driver(tmp_path, "mlp", x, 4)
    y, flash, ram = there(tmp_path)
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)
    assert np.array_equal(y.view(np.uint32), here(tmp_path, "mlp").view(np.uint32))
    weights = counted(tmp_path, "WEIGHT")
    assert weights == 4 * (33 * 64 + 65 * 32 + 33 * 4)
    assert flash - x.nbytes - weights < 4_096 and ram < 1_024, (flash, ram)


def _several() -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1), nn.BatchNorm(), nn.MaxPool2D(3, 2, 1), nn.Swish(), nn.AvgPool2D(2), nn.GELU(),
            nn.Dense(12, activation="sigmoid"), nn.LayerNorm(), nn.Dense(4), nn.HybridLambda("softmax"))
    return net


@ARM
@pytest.mark.thorough
@pytest.mark.parametrize("kind, shape, outputs", [("several", (1, 3, 16, 16), 4), ("encoder", (1, 8, 32), 256),
                                                  ("text", (1, 24), 768)])
@pytest.mark.parametrize("small", [False, True])
def test_other_networks_on_a_cortex_m4(tmp_path: Path, kind: str, shape: tuple[int, ...], outputs: int,
                                       small: bool) -> None:
    net: Any = {"several": _several, "encoder": Encoder, "text": _first_of_text}[kind]()
    net.initialize(mx.init.Xavier())
    draw = np.random.RandomState(2)
    x = (draw.randint(0, 50, (4, *shape[1:])).astype(np.int32) if kind == "text" else
         draw.randn(4, *shape[1:]).astype(np.float32))
    rows: Sequence[Any] = [nd.array(x[i:i + 1], dtype=x.dtype) for i in range(4)]
    wanted = np.stack([net(r).asnumpy().reshape(-1) for r in rows])
    net.export_c(tmp_path, rows[0], name="net", device=True, int8=rows if small else ())
    driver(tmp_path, "net", x, outputs)
    y, _, _ = there(tmp_path)
    close = 0.1 * np.abs(wanted).max() if small else 1e-5
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=close)


def _first_of_text() -> Text:
    net = Text()
    whole = net.hybrid_forward
    net.hybrid_forward = lambda F, tokens: whole(F, tokens)[0]         # type: ignore[method-assign]
    return net


def test_int8_in_the_other_forms(tmp_path: Path) -> None:
    """With vectors and in plain C the same numbers: sums of integers have no order."""
    net, pixels, labels, _ = golden_models.lenet(mx.cpu())
    examples = [pixels[i:i + 1] for i in range(20)]
    found = []
    for plain in (False, True):
        folder = tmp_path / str(plain)
        export_c(net, folder, (1, 1, 28, 28), name="lenet", plain=plain, int8=examples)
        subprocess.run(["gcc", *STRICT, "-O1", "-march=native", "-ffp-contract=off", "lenet.c", "example.c", "-o",
                        "run", "-lm", "-lpthread"], cwd=folder, check=True)
        pixels[7].asnumpy().tofile(folder / "x.bin")
        subprocess.run(["./run", "lenet.weights", "1", "x.bin", "y.bin"], cwd=folder, check=True, capture_output=True)
        found.append(np.fromfile(folder / "y.bin", np.float32))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-5)
    assert found[0].argmax() == labels[7]


def test_the_command_line_takes_examples(tmp_path: Path, digits: Path) -> None:
    _, pixels, _, _ = golden_models.lenet(mx.cpu())
    np.save(tmp_path / "examples.npy", pixels[:20].asnumpy())
    files = [str(golden_models.DATA / f"lenet_digits{end}") for end in ("-symbol.json", "-0025.params")]
    assert main([*files, "--shape", "data=1,1,28,28", "-o", str(tmp_path), "--name", "lenet", "--device", "--int8",
                 str(tmp_path / "examples.npy")]) == 0
    driver(tmp_path, "lenet", pixels[:5].asnumpy(), 10)
    driver(digits, "lenet", pixels[:5].asnumpy(), 10)
    np.testing.assert_array_equal(here(tmp_path, "lenet"), here(digits, "lenet"))
    assert main([*files, "--shape", "data=1,1,28,28", "-o", str(tmp_path), "--int8", __file__]) == 1


def test_what_the_form_does_not_have_is_refused(tmp_path: Path) -> None:
    net = nn.Dense(3, in_units=2)
    net.initialize()
    with pytest.raises(ValueError, match="device=True alone"):
        net.export_c(tmp_path, (1, 2), name="net", device=True, bindings=("cpp",))
    for examples, said in (([nd.ones((1, 3))], r"shape of the input data, \(1, 2\); got \(1, 3\)"),
                           ([(nd.ones((1, 2)), nd.ones((1, 2)))], "a tuple of 1 arrays"),
                           ([nd.ones((1, 2)) * np.inf], "finite")):
        with pytest.raises(ValueError, match=said):
            net.export_c(tmp_path, (1, 2), name="net", device=True, int8=examples)
    with pytest.raises(mx.errors.HybridError, match="no product of an activation with float32 weights"):
        export_c(lambda x: x + 1, tmp_path, (1, 2), name="net", int8=[nd.ones((1, 2))])
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd")

    def step(x: Any) -> Any:
        with mx.autograd.record():
            loss = net(x).sum()
        loss.backward()
        trainer.step(1)
        return loss
    for how in ({"device": True}, {"int8": [nd.ones((1, 2))]}):
        with pytest.raises(mx.errors.HybridError, match="training step"):
            export_c(step, tmp_path, (1, 2), name="learner", **how)
    assert not any(tmp_path.iterdir())
