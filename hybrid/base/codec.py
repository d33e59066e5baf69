"""Images as bytes and as NumPy arrays, through Pillow (the extra ``image``)."""
from __future__ import annotations

import io
from typing import Any

import numpy as np

from .errors import FileFormatError, HybridError

_FORMATS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".bmp": "BMP", ".webp": "WEBP", ".tif": "TIFF",
            ".tiff": "TIFF"}
# libpng's weights in 15 bits, as OpenCV has it compute gray
_PNG_GRAY = np.array([9797, 19234, 3737], np.uint32)


def pillow() -> Any:
    """Pillow's Image module; an error that says how to get it where it is missing."""
    try:
        from PIL import Image  # noqa: PLC0415 - optional
    except ImportError:
        raise HybridError("reading and writing pictures needs Pillow: pip install Pillow") from None
    return Image


def decode(data: bytes | bytearray | memoryview | np.ndarray, flag: int = 1, to_rgb: bool = True,
           name: str = "the picture") -> np.ndarray:
    """Pixels of an encoded image, uint8, as they are stored (what EXIF says of turning is not done, nor does MXNet do
    it).

    flag: 1 gives (height, width, 3), 0 gray (height, width), -1 what is stored (gray, colour, or colour with alpha).
    to_rgb: red first, else blue first. FileFormatError for data that are no image or end early; it begins with name.
    """
    raw = data.tobytes() if isinstance(data, np.ndarray) else bytes(data)
    image_module = pillow()
    if not raw:
        raise FileFormatError(f"{name} is empty: no bytes to decode")
    try:
        with image_module.open(io.BytesIO(raw)) as picture:
            if flag == 0 and picture.format == "JPEG" and picture.mode in ("YCbCr", "RGB"):
                picture.draft("L", picture.size)                 # the brightness as it is stored
            picture.load()
            pixels = _pixels(picture, flag, picture.format)
    except image_module.DecompressionBombError as err:
        raise FileFormatError(f"{name}: {err}; raise PIL.Image.MAX_IMAGE_PIXELS if you trust it") from None
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, OverflowError, MemoryError) as err:
        raise FileFormatError(f"{name} cannot be decoded: {str(err).split(' <')[0] or type(err).__name__} ({len(raw)} "
                              f"bytes; "
                              "the data are cut off, damaged or of an unknown format)") from None
    if pixels.ndim == 3 and not to_rgb:
        pixels[..., :3] = pixels[..., 2::-1].copy()
    return pixels


def _pixels(picture: Any, flag: int, kind: str | None) -> np.ndarray:
    if picture.mode.startswith("I") or picture.mode == "F":      # 16 and 32 bits: the upper 8, as OpenCV takes them
        wide = np.asarray(picture)
        picture = pillow().fromarray((wide >> 8 if wide.dtype.kind in "iu" else wide).clip(0, 255).astype(np.uint8))
    if flag == 0 and kind == "PNG" and picture.mode not in ("1", "L", "LA"):
        return (np.asarray(picture.convert("RGB")).astype(np.uint32) @ _PNG_GRAY >> 15).astype(np.uint8)
    if flag == 0:
        return np.array(picture.convert("L"))
    if flag > 0:
        return np.array(picture.convert("RGB"))
    alpha = picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info
    gray = picture.mode in ("1", "L")
    return np.array(picture.convert("L" if gray else "RGBA" if alpha else "RGB"))


def encode(img: np.ndarray, quality: int = 95, img_fmt: str = ".jpg", to_rgb: bool = False) -> bytes:
    """An encoded image of uint8 pixels: (height, width), (height, width, 1), or with 3 or 4 channels.

    quality: 1 to 100 for JPEG, compression 0 to 9 for PNG. to_rgb: the pixels are red first, else blue first.
    """
    kind = _FORMATS.get(img_fmt.lower())
    if kind is None:
        raise HybridError(f"pictures cannot be written as {img_fmt!r}; known: {', '.join(_FORMATS)}")
    if img.dtype != np.uint8 or img.ndim not in (2,
                                                 3) or img.size == 0 or (img.ndim == 3
            and img.shape[2] not in (1, 3, 4)):
        raise HybridError(f"a picture is uint8 of shape (height, width) or (height, width, 1, 3 or 4), got "
                          f"{img.dtype}{img.shape}")
    if img.ndim == 3:
        img = img[...,
                  0] if img.shape[2] == 1 else img if to_rgb else np.concatenate([img[..., 2::-1], img[..., 3:]], 2)
    if kind == "JPEG" and img.ndim == 3:
        img = img[..., :3]
    out = io.BytesIO()
    options: dict[str, Any] = {"quality": quality} if kind in ("JPEG",
                                                               "WEBP") else {"compress_level": min(quality,
            9)} if kind == "PNG" else {}
    pillow().fromarray(np.ascontiguousarray(img)).save(out, kind, **options)
    return out.getvalue()
