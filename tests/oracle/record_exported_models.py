"""Exports exported_models.py with MXNet 1.9.1 into tests/data/exported_models.zip: MXNET_MKLDNN_ENABLED=0 python
tests/oracle/record_exported_models.py"""
import tempfile
import zipfile
from pathlib import Path

import exported_models
import mxnet as mx

path = Path(__file__).parent.parent / "data" / "exported_models.zip"
with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
    for name, make in exported_models.CASES.items():
        place = Path(folder, name)
        place.mkdir()
        exported_models.export(mx, make, place)
        for file in sorted(place.iterdir()):
            archive.writestr(zipfile.ZipInfo(f"{name}/{file.name}"), file.read_bytes(), zipfile.ZIP_DEFLATED)
