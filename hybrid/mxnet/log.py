"""MXNet's ``log``: loggers that write short coloured lines to a terminal, plain ones elsewhere."""
from __future__ import annotations

import logging
import sys
from logging import CRITICAL, DEBUG, ERROR, INFO, NOTSET, WARNING

_COLOURS = {DEBUG: "\x1b[32m", INFO: "\x1b[32m", WARNING: "\x1b[33m", ERROR: "\x1b[31m", CRITICAL: "\x1b[35m"}


class Formatter(logging.Formatter):
    """``W1121 11:07:29 154 train:fit:3] text``: level, time, process, module, function, line."""

    def __init__(self, coloured: bool = False):
        super().__init__("%(asctime)s %(process)d %(module)s:%(funcName)s:%(lineno)d] %(message)s", "%m%d %H:%M:%S")
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        """One line (or more, with a traceback)."""
        head, mark, tail = super().format(record).partition("] ")
        head = record.levelname[0] + head + mark.rstrip()
        return (f"{_COLOURS.get(record.levelno, '')}{head}\x1b[0m " if self._coloured else head + " ") + tail


def get_logger(name: str | None = None, filename: str | None = None, filemode: str | None = None,
               level: int = WARNING) -> logging.Logger:
    """The logger of a name, which writes to a file or to the standard error output; asked for again it is the same.

    >>> get_logger("training", level=INFO).isEnabledFor(INFO)
    True
    """
    logger = logging.getLogger(name)
    if name is not None and not getattr(logger, "_hybrid_ready", False):
        handler: logging.Handler
        if filename:
            handler = logging.FileHandler(filename, filemode or "a")
            handler.setFormatter(Formatter())
        else:
            handler = logging.StreamHandler()
            handler.setFormatter(Formatter(hasattr(sys.stderr, "isatty") and sys.stderr.isatty()))
        logger.addHandler(handler)
        setattr(logger, "_hybrid_ready", True)
    if name is not None:
        logger.setLevel(level)
    return logger


getLogger = get_logger  # noqa: N816  MXNet's older name

__all__ = ["CRITICAL", "DEBUG", "ERROR", "INFO", "NOTSET", "WARNING", "getLogger", "get_logger"]
