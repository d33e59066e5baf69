"""Files that earlier versions wrote are read, and give what they gave (kept_files.py writes them)."""
from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

import hybrid as mx
from hybrid import gluon, nd

from . import kept_files

KEPT = sorted(kept_files.FOLDER.glob("*.zip"))


@pytest.fixture(params=KEPT, ids=[p.stem for p in KEPT])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with zipfile.ZipFile(request.param) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def test_this_version_has_kept_some() -> None:
    assert mx.__version__ in [p.stem for p in KEPT], "python -m tests.serialize.kept_files writes them"


def test_parameters_and_states_of_a_trainer(folder: Path) -> None:
    """Training goes on as it would have gone on then."""
    expected = np.load(folder / "expected.npz")
    net = kept_files.network()
    net.load_parameters(str(folder / "net.params"))
    np.testing.assert_allclose(kept_files.predict(net), expected["prediction"], rtol=1e-4, atol=1e-5)
    trainer = kept_files.trainer_of(net)
    trainer.load_states(str(folder / "trainer.states"))
    kept_files.step(net, trainer)
    np.testing.assert_allclose(kept_files.predict(net), expected["after"], rtol=1e-3, atol=1e-4)


def test_exported_models(folder: Path) -> None:
    net = gluon.SymbolBlock.imports(str(folder / "net-symbol.json"), ["data"], str(folder / "net-0003.params"))
    np.testing.assert_allclose(kept_files.predict(net), np.load(folder / "expected.npz")["prediction"], rtol=1e-4,
                               atol=1e-5)


def test_saved_arrays(folder: Path) -> None:
    found = nd.load(str(folder / "arrays.nd"))
    np.testing.assert_array_equal(found["dense"].asnumpy(), kept_files.X[0, 0])
    assert found["whole"].asnumpy().tolist() == [1, 2, 3] and found["whole"].dtype == np.int32
    assert found["half"].asnumpy().tolist() == [0.5, 2] and found["half"].dtype == np.float16
    for name in ("rows", "csr"):
        assert found[name].stype == {"rows": "row_sparse", "csr": "csr"}[name]
        np.testing.assert_array_equal(found[name].asnumpy(), np.eye(3))
