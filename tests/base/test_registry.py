"""mx.registry: classes by name."""
from __future__ import annotations

import pytest

import hybrid as mx
from hybrid.base.errors import AttributeValueError


class Shape:
    def __init__(self, size=1):
        self.size = size


register = mx.registry.get_register_func(Shape, "shape")
create = mx.registry.get_create_func(Shape, "shape")


@register
class Square(Shape):
    pass


@mx.registry.get_alias_func(Shape, "shape")("round", "Disc")
class Circle(Shape):
    pass


@pytest.mark.parametrize("args", [("square", 3), ('["square", {"size": 3}]',), ('{"shape": "square", "size": 3}',),
                                  ({"shape": "SQUARE", "size": 3},)],
                         ids=["name", "list", "object", "dict"])
def test_instances_from_names_and_texts(args):
    made = create(*args)
    assert type(made) is Square and made.size == 3 and create(made) is made


def test_tables_and_errors():
    assert type(create("disc")) is type(create(shape="round")) is Circle
    table = mx.registry.get_registry(Shape)
    assert table == {"square": Square, "round": Circle, "disc": Circle}
    table.clear()
    assert mx.registry.get_registry(Shape) and mx.registry.get_registry(int) == {}
    for call, message in ((lambda: create("oval"), "no shape 'oval' is registered; known: disc, round, square"),
                          (lambda: create(), "give the shape's name"),
                          (lambda: create(3), "by its name, got int"), (lambda: create("[1"), "as text is"),
                          (lambda: create('["square"]'), "as text is"),
                          (lambda: create(Square(), 3), "already")):
        with pytest.raises(AttributeValueError, match=message):
            call()
    with pytest.raises(TypeError, match="only subclasses of Shape"):
        register(int)
    with pytest.warns(UserWarning, match="shape 'disc' was Circle, now it is Square"):
        register(Square, "disc")


def test_addresses_of_mxnets_files(monkeypatch):
    monkeypatch.setenv("MXNET_GLUON_REPO", "https://example.org/mirror")
    assert mx.gluon.utils._get_repo_file_url("gluon/models", "a.zip") == "https://example.org/mirror/gluon/models/a.zip"
    monkeypatch.delenv("MXNET_GLUON_REPO")
    assert (mx.gluon.utils._get_repo_url().startswith("https://apache-mxnet")
            and mx.gluon.utils._get_repo_url().endswith("/"))
