"""What a file that is of another kind than was expected looks like, by its first bytes, and what reads it."""
from __future__ import annotations

KINDS = [
    (b"PK\x03\x04", "an .npz archive of NumPy or another zip file", "np.load"),
    (b"\x93NUMPY", "an .npy file of NumPy", "np.load, then nd.array"),
    (b"\x80", "a pickle, which is not read since it can run code",
     "load it where you trust it and save it with nd.save or save_parameters"),
    (b"\x12\x01\x00\x00\x00\x00\x00\x00", "a .params file of MXNet", "load_parameters or nd.load"),
    (b"\x89HDF", "an HDF5 file", "h5py, then nd.array"),
    (b"{", "a JSON file", "SymbolBlock.imports, sym.load for a -symbol.json"),
]


def looks_like(head: bytes) -> str:
    """What to add to an error about a file that begins with these bytes: '' where nothing is known.

    >>> looks_like(b"PK\\x03\\x04rest")
    '; it looks like an .npz archive of NumPy or another zip file (np.load)'
    """
    return next((f"; it looks like {what} ({way})" for start, what, way in KINDS if head.startswith(start)), "")
