"""EvalMetric, the registry of metrics, several metrics as one, and metrics made of a function."""
from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any, Callable, Mapping, Sequence, TypeVar

import numpy

from ..base.errors import AttributeValueError, ShapeError, warn_user
from ..base.names import among

_registry: dict[str, type["EvalMetric"]] = {}


def to_numpy(x: Any) -> numpy.ndarray:
    """An array of any kind as a NumPy array."""
    if hasattr(x, "asnumpy"):
        return x.asnumpy()
    # CuPy's arrays
    return x.get() if hasattr(x, "__cuda_array_interface__") and hasattr(x, "get") else numpy.asarray(x)


def check_label_shapes(labels: Any, preds: Any, wrap: bool = False, shape: bool = False) -> tuple[Any, Any]:
    """Raise ValueError unless labels and predictions are equally many (``shape``: have the same shape).

    wrap: single arrays come back as lists of one array.
    """
    a, b = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if a != b:
        raise ValueError(f"Shape of labels {a} does not match shape of predictions {b}{_kinds(labels, preds)}")
    if wrap:
        labels = labels if isinstance(labels, (list, tuple)) else [labels]
        preds = preds if isinstance(preds, (list, tuple)) else [preds]
    return labels, preds


def _kinds(labels: Any, preds: Any) -> str:
    lists = [isinstance(v, (list, tuple)) for v in (labels, preds)]
    return "; give both as arrays, or both as lists of arrays" if lists[0] != lists[1] else ""


def pairs(labels: Any, preds: Any) -> list[tuple[numpy.ndarray, numpy.ndarray]]:
    """(label, prediction) pairs in NumPy, from arrays or lists of arrays."""
    labels, preds = check_label_shapes(labels, preds, True)
    return [(to_numpy(label), to_numpy(pred)) for label, pred in zip(labels, preds)]


def mismatch(metric: Any, label: Any, pred: Any, expected: str) -> ShapeError:
    """The error for a label and a prediction that do not fit."""
    return ShapeError(f"{type(metric).__name__}: Shape of labels {label.shape} does not match shape of predictions "
                      f"{pred.shape}; expected {expected}")


class EvalMetric:
    """Base of all metrics: a sum and a count, since the last ``reset`` (global) and since the last ``reset_local``.

    A metric of one's own defines ``update(labels, preds)``, which adds to ``sum_metric`` and ``num_inst``.

    name: what it is called in results. output_names, label_names: which entries ``update_dict`` takes (all by default).
    Other keyword arguments are kept for ``get_config``.

    >>> metric = Accuracy()
    >>> metric.update(nd.array([1, 0]), nd.array([[0.2, 0.8], [0.1, 0.9]]))
    >>> metric.get()
    ('accuracy', 0.5)
    """

    def __init__(self, name: Any, output_names: Sequence[str] | None = None, label_names: Sequence[str] | None = None,
                 **kwargs: Any):
        self.name = str(name)
        self.output_names = output_names
        self.label_names = label_names
        self._has_global_stats = kwargs.pop("has_global_stats", False)
        self._kwargs = kwargs
        self.reset()

    num_inst: Any
    sum_metric: Any
    global_num_inst: Any
    global_sum_metric: Any

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self) -> dict[str, Any]:
        """What ``create(**config)`` makes the same metric from."""
        return {**self._kwargs, "metric": type(self).__name__, "name": self.name, "output_names": self.output_names,
                "label_names": self.label_names}

    def update_dict(self, label: Mapping[str, Any], pred: Mapping[str, Any]) -> None:
        """``update`` from named labels and predictions."""
        self.update(self._chosen(label, self.label_names, "label"), self._chosen(pred, self.output_names, "output"))

    def _chosen(self, given: Mapping[str, Any], names: Sequence[str] | None, what: str) -> list[Any]:
        missing = [n for n in names or () if n not in given]
        if missing:
            raise ValueError(f"metric {self.name}: {what} {', '.join(map(repr, missing))} is not among "
                             f"{', '.join(map(repr, given)) or 'none'}")
        return list(given.values()) if names is None else [given[n] for n in names]

    def update(self, labels: Any, preds: Any) -> None:
        """Take a batch into account. labels, preds: an array each, or lists of arrays of the same length."""
        raise NotImplementedError(f"{type(self).__name__} must define update(self, labels, preds)")

    def _add(self, value: Any, count: Any) -> None:
        """Add to the sums and counts, local and global."""
        self.sum_metric += value
        self.global_sum_metric += value
        self.num_inst += count
        self.global_num_inst += count

    def reset(self) -> None:
        """Forget everything."""
        self.num_inst, self.sum_metric, self.global_num_inst, self.global_sum_metric = 0, 0.0, 0, 0.0

    def reset_local(self) -> None:
        """Forget what came since the last reset, but not for ``get_global``."""
        self.num_inst, self.sum_metric = 0, 0.0

    def _result(self, total: Any, count: Any) -> Any:
        """The value of a sum and a count."""
        if count == 0:
            return float("nan")
        value = total / count
        return value.item() if isinstance(value, numpy.generic) else value

    def get(self) -> tuple[str, float]:
        """(name, value) since the last ``reset_local``; nan before the first update."""
        return self.name, self._result(self.sum_metric, self.num_inst)

    def get_global(self) -> tuple[Any, Any]:
        """(name, value) since the last ``reset``."""
        return (self.name, self._result(self.global_sum_metric,
                                        self.global_num_inst)) if self._has_global_stats else self.get()

    def get_name_value(self) -> list[tuple[str, Any]]:
        """``get`` as a list of pairs."""
        return _zipped(*self.get())

    def get_global_name_value(self) -> list[tuple[str, Any]]:
        """``get_global`` as a list of pairs."""
        return _zipped(*self.get_global())


def _zipped(name: Any, value: Any) -> list[tuple[str, Any]]:
    return list(zip(name if isinstance(name, list) else [name], value if isinstance(value, list) else [value]))


# ---- the registry
Kind = TypeVar("Kind", bound=type[EvalMetric])


def register(klass: Kind, name: str | None = None) -> Kind:
    """Make a metric known to ``create`` by its name in lower case. Also a decorator."""
    if not (isinstance(klass, type) and issubclass(klass, EvalMetric)):
        raise AttributeValueError(f"metric.register takes a subclass of EvalMetric, got {klass!r}")
    key = (name or klass.__name__).lower()
    old = _registry.get(key)
    if old is not None and old is not klass:
        warn_user(f"metric {key!r} was {old.__module__}.{old.__name__} and is {klass.__module__}.{klass.__name__} "
                  f"now")
    _registry[key] = klass
    return klass


def alias(*names: str) -> Callable[[Kind], Kind]:
    """Further names of a metric (a decorator)."""
    def add(klass: Kind) -> Kind:
        for n in names:
            register(klass, n)
        return klass
    return add


def create(metric: Any, *args: Any, **kwargs: Any) -> EvalMetric:
    """A metric from a name, a metric, a function of (label, pred), a config, MXNet's JSON text, or a list of these.

    >>> create('top_k_accuracy', top_k=5).name
    'top_k_accuracy_5'
    >>> create(['acc', 'ce']).get()[0]
    ['accuracy', 'cross-entropy']
    """
    if isinstance(metric, EvalMetric):
        if args or kwargs:
            raise AttributeValueError(f"{type(metric).__name__} is a metric already and takes no further arguments")
        return metric
    if isinstance(metric, type) and issubclass(metric, EvalMetric):
        return metric(*args, **kwargs)
    if callable(metric):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, (list, tuple)):
        return CompositeEvalMetric([create(m, *args, **kwargs) for m in metric])
    if isinstance(metric, dict):
        return create(**{**metric, **kwargs})
    return _by_name(metric, args, kwargs)


def _by_name(name: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if not isinstance(name, str):
        raise AttributeValueError(f"a metric is a name, a metric, a function or a list of these, got {name!r}")
    if name[:1] in ("[", "{"):
        try:
            given = json.loads(name)
        except ValueError:
            raise AttributeValueError(f"{name[:80]!r} is no metric: it begins like JSON but cannot be read") from None
        return create(given) if isinstance(given, dict) else create(given[0], **given[1])
    found = _registry.get(name.lower())
    if found is None:
        raise AttributeValueError(f"unknown metric {among(name, _registry)}")
    return found(*args, **kwargs)


# ---- several metrics
@register
@alias("composite")
class CompositeEvalMetric(EvalMetric):
    """Several metrics that are updated together; ``get`` gives lists of names and values.

    >>> both = CompositeEvalMetric([Accuracy(), 'f1'])
    """

    def __init__(self, metrics: Sequence[Any] | None = None, name: str = "composite",
                 output_names: Sequence[str] | None = None,
                 label_names: Sequence[str] | None = None):
        self.metrics = [create(m) for m in metrics or ()]
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def add(self, metric: Any) -> None:
        """Add a metric, or what ``create`` makes one from."""
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> EvalMetric:
        """The metric at an index."""
        try:
            return self.metrics[index]
        except IndexError:
            raise ValueError(f"Metric index {index} is out of range 0 and {len(self.metrics)}") from None

    def update_dict(self, labels: Mapping[str, Any], preds: Mapping[str, Any]) -> None:
        """Update every metric from named labels and predictions."""
        for names, what in ((self.label_names, "label"), (self.output_names, "output")):
            self._chosen(labels if what == "label" else preds, names, what)
        if self.label_names is not None:
            labels = OrderedDict((k, v) for k, v in labels.items() if k in self.label_names)
        if self.output_names is not None:
            preds = OrderedDict((k, v) for k, v in preds.items() if k in self.output_names)
        for m in self.metrics:
            m.update_dict(labels, preds)

    def update(self, labels: Any, preds: Any) -> None:
        """Update every metric."""
        for m in self.metrics:
            m.update(labels, preds)

    def reset(self) -> None:
        """Reset every metric."""
        for m in self.metrics:
            m.reset()

    def reset_local(self) -> None:
        """Reset the local part of every metric."""
        for m in self.metrics:
            m.reset_local()

    def get(self) -> tuple[list[str], list[float]]:          # type: ignore[override]
        """Names and values of all metrics, in lists."""
        return _joined([m.get() for m in self.metrics])

    def get_global(self) -> tuple[Any, Any]:
        """Names and global values of all metrics, in lists."""
        return _joined([m.get_global() for m in self.metrics])

    def get_config(self) -> dict[str, Any]:
        """What ``create(**config)`` makes the same metric from."""
        return {**super().get_config(), "metrics": [m.get_config() for m in self.metrics]}


def _joined(results: list[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    rows = [row for name, value in results for row in _zipped(name, value)]
    return [name for name, _ in rows], [value for _, value in rows]


# ---- metrics made of a function
@register
class CustomMetric(EvalMetric):
    """A metric made of ``feval(label, pred)`` on NumPy arrays, which returns a value, or (sum, count).

    name: the function's by default. allow_extra_outputs: there may be more predictions than labels.
    """

    def __init__(self, feval: Callable[..., Any], name: str | None = None, allow_extra_outputs: bool = False,
                 output_names: Sequence[str] | None = None,
                 label_names: Sequence[str] | None = None):
        if name is None:
            name = getattr(feval, "__name__", type(feval).__name__)
            name = f"custom({name})" if "<" in name else name
        super().__init__(name, output_names, label_names, feval=feval, allow_extra_outputs=allow_extra_outputs,
                         has_global_stats=True)
        self._feval = feval
        self._allow_extra_outputs = allow_extra_outputs

    def update(self, labels: Any, preds: Any) -> None:
        """Call the function on each label and prediction."""
        if not self._allow_extra_outputs:
            labels, preds = check_label_shapes(labels, preds, True)
        for pred, label in zip(preds, labels):
            found = self._feval(to_numpy(label), to_numpy(pred))
            self._add(*(found if isinstance(found, tuple) else (found, 1)))

    def get_config(self) -> dict[str, Any]:
        """Refused: a function cannot be written down."""
        raise NotImplementedError("CustomMetric cannot be serialized")


def np(numpy_feval: Callable[..., Any], name: str | None = None, allow_extra_outputs: bool = False) -> CustomMetric:
    """A metric made of a function of NumPy arrays (label, pred).

    >>> np(lambda label, pred: abs(label - pred).mean()).name
    'custom(<lambda>)'
    """
    return CustomMetric(numpy_feval, name, allow_extra_outputs)
