"""``import mxnet`` as this library: in this process, in scripts, in child processes; what is missing is named;
--check."""
from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from hybrid.alias.check import check_source


def run(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, cwd=cwd)


def alias(code: str, cwd: Path | None = None) -> str:
    """What a program prints under the alias."""
    done = run("-m", "hybrid.as_mxnet", "-c", textwrap.dedent(code), cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_modules_are_the_librarys_own() -> None:
    code = """
        import hybrid, mxnet as mx, mxnet.ndarray as nd, mxnet.gluon.data.vision
        from mxnet import autograd, gluon, nd as nd2, sym
        from mxnet.gluon import nn
        from mxnet.gluon.block import HybridBlock, Block, SymbolBlock
        from mxnet.gluon.parameter import Parameter, DeferredInitializationError
        from mxnet.ndarray.ndarray import NDArray
        from mxnet.symbol.symbol import Symbol
        from mxnet.base import MXNetError
        from mxnet.context import Context, cpu
        assert mx.nd is nd is nd2 is hybrid.nd and sym is hybrid.sym and nn is hybrid.gluon.nn and NDArray is hybrid.NDArray
        assert HybridBlock is hybrid.gluon.HybridBlock and SymbolBlock is gluon.SymbolBlock and mx.__version__ == '1.9.1'
        assert hybrid.gluon.block.__name__ == 'hybrid.gluon.block' and hybrid.gluon.block.__spec__.name == 'hybrid.gluon.block'
        class Net(HybridBlock):
            def __init__(self):
                super().__init__()
                with self.name_scope():
                    self.fc = nn.Dense(2)
            def hybrid_forward(self, F, x):
                return F.relu(self.fc(x))
        net = Net()
        net.initialize(mx.init.One(), ctx=mx.cpu())
        net.hybridize()
        print(net(mx.nd.ones((1, 3), ctx=mx.cpu())).asnumpy().tolist())
    """  # noqa: E501
    assert alias(code) == "[[3.0, 3.0]]"


def test_star_imports() -> None:
    code = """
        names = {"mxnet": "nd gluon autograd mod cpu", "mxnet.gluon": "Trainer nn loss data utils HybridBlock", "mxnet.gluon.block": "HybridBlock SymbolBlock",
                 "mxnet.ndarray": "FullyConnected relu array NDArray contrib zeros", "mxnet.symbol": "FullyConnected relu Variable zeros linalg",
                 "mxnet.random": "seed uniform", "mxnet.test_utils": "np mx assert_almost_equal rand_ndarray"}
        for module, wanted in names.items():
            found = {}
            exec(f"from {module} import *", found)
            print([n for n in wanted.split() if n not in found])
    """  # noqa: E501
    assert set(alias(code).splitlines()) == {"[]"}


MISSING = {
    "module": ("import mxnet.nothing", "mxnet.nothing"),
    "from": ("from mxnet import nothing", "mxnet.nothing"),
    "deep": ("import mxnet.gluon.nothing.more", "mxnet.gluon.nothing"),
    "attribute": ("import mxnet as mx; mx.nothing", "mxnet.nothing"),
    "class": ("from mxnet.gluon.block import Nothing", "'Nothing'"),
    "reason": ("import mxnet.rtc", "CuPy's RawKernel"),
    "operator": ("import mxnet as mx; mx.nd.nothing", "'nothing'"),
    "part of ours": ("import mxnet.passes", "mxnet.passes"),
}


@pytest.mark.parametrize("case", MISSING)
def test_a_missing_piece_is_named(case: str) -> None:
    code, name = MISSING[case]
    done = run("-m", "hybrid.as_mxnet", "-c", code)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and name in last and last.split(":")[0].endswith(("Error", "MissingPart")), done.stderr


def test_optional_imports_can_be_tried() -> None:
    assert alias("""
        try:
            import mxnet.nothing
        except ImportError:
            print('none')
    """) == "none"


def test_names_that_numpy_had_are_there_under_the_alias_alone() -> None:
    code = """
        import hybrid.alias, numpy as np
        before = dict(vars(np))
        hybrid.alias.install()
        print(np.arange(3).astype(np.int).tolist(), np.array([2.5]).astype(np.float).dtype, np.product([2, 3]), np.Inf, np.isnan(np.NaN))
        print(np.percentile(np.arange(5), 30, interpolation="lower"), np.in1d([1, 2], [2]))
        kept = {k: vars(np)[k] is v for k, v in before.items() if not k.startswith("__") and k not in {"percentile", "quantile", "fromstring"}}
        hybrid.alias.remove()
        print(all(kept.values()), set(vars(np)) == set(before), all(vars(np)[k] is before[k] for k in before if not k.startswith("__")))
    """  # noqa: E501
    assert run("-c", textwrap.dedent(code)).stdout.splitlines() == ["[0, 1, 2] float64 6 inf True", "1 [False  True]",
                                                                    "True True True"]


def test_script_with_arguments(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("import mxnet as mx\nvalue = mx.nd.ones((2,)) * 2\n")
    script = tmp_path / "script.py"
    script.write_text("import sys, helper\nif __name__ == '__main__':\n    print(sys.argv[1:], "
                      "helper.value.asnumpy().tolist(), __file__)\n    sys.exit(3)\n")
    done = run("-m", "hybrid.as_mxnet", str(script), "--lr", "0.1", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, f"['--lr', '0.1'] [2.0, 2.0] {script}\n"), done.stderr


def test_module_run(tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text("import sys, mxnet\nprint(__name__, sys.argv[1:], mxnet.nd.zeros((1,)).shape)\n")
    assert run("-m", "hybrid.as_mxnet", "-m", "tool", "a", cwd=tmp_path).stdout == "__main__ ['a'] (1,)\n"


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_child_processes(method: str, tmp_path: Path) -> None:
    script = tmp_path / "many.py"
    script.write_text(textwrap.dedent(f"""
        import multiprocessing
        import mxnet as mx

        def work(n):
            return mx.__version__, float(mx.nd.ones((n,)).sum().asscalar())

        if __name__ == '__main__':
            with multiprocessing.get_context('{method}').Pool(1) as pool:
                print(pool.map(work, [2, 3]))
    """))
    done = run("-m", "hybrid.as_mxnet", str(script), cwd=tmp_path)
    assert done.stdout == "[('1.9.1', 2.0), ('1.9.1', 3.0)]\n", done.stderr


def test_what_programs_find_around_an_import(tmp_path: Path) -> None:
    """sys.modules has mxnet when a program imported it, not before; multiprocessing has its pool."""
    script = tmp_path / "around.py"
    script.write_text("import multiprocessing, sys\nbefore = 'mxnet' in sys.modules\nimport mxnet\nprint(before, "
                      "'mxnet' in sys.modules, multiprocessing.pool.__name__)\n")
    assert run("-m", "hybrid.as_mxnet", str(script), cwd=tmp_path).stdout == "False True multiprocessing.pool\n"


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """A folder with a package mxnet of another maker, which says when its parts are imported."""
    (tmp_path / "mxnet" / "gluon").mkdir(parents=True)
    (tmp_path / "mxnet" / "__init__.py").write_text("print('real mxnet')\nname = 'the real one'\n__version__ = '9.9'\n")
    (tmp_path / "mxnet" / "gluon" / "__init__.py").write_text("print('real gluon')\nname = 'the real gluon'\n")
    (tmp_path / "mxnet" / "only_there.py").write_text("print('real part')\n")
    return tmp_path


REAL = {
    "without the alias": ("""
        import sys, hybrid, numpy as np
        import hybrid.gluon, hybrid.symbol, hybrid.alias
        before = dict(vars(np)), list(sys.path), list(sys.meta_path)
        hybrid.nd.ones((2,)).asnumpy()
        print('mxnet' in sys.modules)
        import mxnet, mxnet.gluon, mxnet.only_there
        print(mxnet.name, mxnet.__version__, mxnet.gluon.name, (dict(vars(np)), sys.path, sys.meta_path) == before)
        """, ["False", "real mxnet", "real gluon", "real part", "the real one 9.9 the real gluon True"]),
    "alias, then without": ("""
        import sys, hybrid, numpy as np
        before = set(vars(np)), list(sys.path), list(sys.meta_path)
        hybrid.as_mxnet()
        import mxnet, mxnet.gluon
        print(mxnet.__version__, mxnet.nd is hybrid.nd, mxnet.gluon is hybrid.gluon)
        try:
            import mxnet.only_there
        except ImportError as err:
            print(err)
        hybrid.as_mxnet.remove()
        print([n for n in sys.modules if n.split('.')[0] == 'mxnet'], (set(vars(np)), sys.path, sys.meta_path) == before)
        import mxnet, mxnet.gluon
        print(mxnet.name, mxnet.gluon.name)
        """, ["1.9.1 True True", "mxnet.only_there is not in hybrid, which stands for mxnet here", "[] True", "real mxnet", "real gluon", "the real one the real gluon"]),  # noqa: E501
    "alias too late": ("""
        import sys, mxnet.gluon, hybrid, numpy as np
        before = set(vars(np)), list(sys.path), list(sys.meta_path), dict(sys.modules)
        try:
            hybrid.as_mxnet()
        except hybrid.HybridError as err:
            print('imported already, from' in str(err))
        import mxnet.only_there
        print(mxnet.name, mxnet.gluon.name, (set(vars(np)), sys.path, sys.meta_path) == before[:3], sys.modules['mxnet'] is before[3]['mxnet'])
        """, ["real mxnet", "real gluon", "True", "real part", "the real one the real gluon True True"]),  # noqa: E501
}


@pytest.mark.parametrize("case", REAL)
def test_a_real_mxnet_is_left_alone(case: str, real: Path) -> None:
    code, lines = REAL[case]
    before = {p: p.read_bytes() for p in real.rglob("*.py")}
    done = run("-B", "-c", textwrap.dedent(code), cwd=real)
    assert done.stdout.splitlines() == lines, done.stderr
    assert {p: p.read_bytes() for p in real.rglob("*") if p.is_file()} == before


def test_the_command_line_prefers_this_library_to_a_real_mxnet(real: Path) -> None:
    (real / "script.py").write_text("import mxnet as mx\nfrom mxnet import gluon\nprint(mx.__version__, "
                                    "gluon.__name__)\n")
    for arguments in (["script.py"], ["-m", "script"], ["-c", (real / "script.py").read_text()]):
        done = run("-B", "-m", "hybrid.as_mxnet", *arguments, cwd=real)
        assert done.stdout == "1.9.1 hybrid.gluon\n", done.stderr
    done = run("-B", "-m", "hybrid.as_mxnet", "--check", "script.py", cwd=real)
    assert (done.returncode, done.stdout) == (0, "0 not supported in 1 file\n"), done.stderr


def test_command_line_errors(tmp_path: Path) -> None:
    assert run("-m", "hybrid.as_mxnet").returncode == 2
    missing = run("-m", "hybrid.as_mxnet", "nothing.py", cwd=tmp_path)
    assert missing.returncode == 2 and "nothing.py: no such file" in missing.stderr


PROGRAM = '''
import mxnet as mx
from mxnet import nd, gluon
from mxnet.gluon import nn, nothing
import mxnet.contrib.tensorrt

layers = mx.gluon.nn

class Net(gluon.HybridBlock):
    def hybrid_forward(self, F, x, nd=None):
        y = F.no_such_operator(x) + nd.also_fine
        return F.relu(F.FullyConnected(x, num_hidden=2, colour=3))

def build(mx):
    return mx.anything

a = nd.ones((2,), dtype='float32')
layers.NoLayer(3)
nn.Dense(3, colour=1)
mx.nd.sparse.no_such(a)
w = gluon.Parameter('w', shape=(2,), stype='row_sparse')
mx.nd.sparse.csr_matrix((2, 3)) + a.tostype('csr')
mx.sym.FullyConnected(mx.sym.var('x'), num_hidden=2, lr_mult=2, wd_mult=0)
nd.broadcast_maximum(a, a, axis=1)
'''


def test_check_names_what_is_missing_by_line() -> None:
    found = {f.line: f.text for f in check_source(PROGRAM, "net.py")}
    assert sorted(found) == [4, 5, 11, 12, 18, 19, 20]
    assert ("mxnet.gluon.nothing" in found[4] and "one compiler" in found[5] and "no_such_operator" in found[11]
            and "takes no colour" in found[12])
    assert "NoLayer" in found[18] and "takes no colour" in found[19] and "no_such" in found[20]


def test_contrib_quantization_is_imported_under_its_name() -> None:
    code = """
        import mxnet.contrib.quantization as q, hybrid
        from mxnet.contrib.quantization import quantize_net
        print(q is hybrid.contrib.quantization and quantize_net is q.quantize_net)
    """
    assert alias(code) == "True"


def test_check_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import mxnet as mx\nopen('touched', 'w')\nmx.nd.zeros((1,))\n")
    (tmp_path / "old.py").write_text("print 'Python 2'\n")
    done = run("-m", "hybrid.as_mxnet", "--check", "bad.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "0 not supported in 1 file\n") and not (tmp_path / "touched").exists()
    done = run("-m", "hybrid.as_mxnet", "--check", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 2 and "old.py:1: not Python 3" in done.stdout
    assert run("-m", "hybrid.as_mxnet", "--check", "absent.py", cwd=tmp_path).returncode == 2


def test_fromstring_takes_bytes_as_it_did() -> None:
    code = """
        import mxnet as mx, numpy as np
        x = np.fromstring(bytes([1, 2, 3]), dtype=np.uint8)
        x[0] = 7
        print(x.tolist(), np.fromstring("1 2", sep=" ").tolist())
    """
    assert alias(code) == "[7, 2, 3] [1.0, 2.0]"
