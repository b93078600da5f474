"""Objects that lie, raise or never end when they are looked at: none of their code runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from wherry.domain.stored import decode
from wherry.errors import InvalidPayload
from wherry.tasks.payload import encode, encode_result


class CodeRan(BaseException):
    """Not even an Exception, so that nobody can swallow it by accident."""


def booby_trap(*_: object, **__: object) -> NoReturn:
    raise CodeRan


TRAPS: dict[str, Any] = dict.fromkeys(
    [
        *("__bool__", "__str__", "__repr__", "__format__", "__hash__", "__len__", "__iter__"),
        *("__eq__", "__ne__", "__lt__", "__gt__", "__le__", "__ge__", "__getitem__"),
        *("__contains__", "__int__", "__float__", "__index__", "__neg__", "__pos__", "__abs__"),
        *("__add__", "__sub__", "__rsub__", "__mul__", "__divmod__", "__getattr__", "__dir__"),
        *("__getattribute__", "__json__", "__reduce__", "items", "keys", "values", "copy"),
        *("encode", "isascii"),
    ],
    booby_trap,
)


class HostileMeta(type):
    """A class of classes whose names and ancestors cannot be asked for."""

    __getattribute__ = booby_trap
    __instancecheck__ = booby_trap
    __subclasscheck__ = booby_trap
    __eq__ = booby_trap
    __hash__ = type.__hash__


def trapped(*bases: type) -> Any:
    return HostileMeta("Trapped", bases, TRAPS | {"__class__": property(booby_trap)})


def test_an_object_full_of_traps_is_refused_by_its_type_alone() -> None:
    trap = trapped(object)()

    with pytest.raises(InvalidPayload) as refused:
        encode({"a": [trap]})

    assert refused.value.path == "$.a[0]"
    assert "Trapped" in refused.value.reason


@pytest.mark.parametrize(
    ("base", "plain"), [(str, "abc"), (int, 12), (float, -0.0), (dict, {"k": 1}), (list, [1, "a"])]
)
def test_a_subclass_full_of_traps_is_read_as_its_base(base: type, plain: Any) -> None:
    trap = trapped(base)(plain)

    back = decode(encode({"a": trap}))["a"]

    assert repr(back) == repr(plain)


def test_a_key_full_of_traps_is_read_or_refused_without_running_it() -> None:
    class Key(str):
        __slots__ = ()
        __str__ = __repr__ = booby_trap

    class NoKey:
        __str__ = __repr__ = booby_trap

    assert encode({"a": {Key("k"): 1}}) == '{"a":{"k":1}}'
    with pytest.raises(InvalidPayload, match="a key of type .*NoKey, "):
        encode({"a": {NoKey(): 1}})


def test_an_object_that_claims_to_be_a_dict_is_not_believed() -> None:
    class Proxy:
        @property
        def __class__(self) -> type:
            return dict

        @__class__.setter
        def __class__(self, value: type) -> None:
            raise AssertionError

    with pytest.raises(InvalidPayload, match=r"must be a dict .*, not .*Proxy"):
        encode(Proxy())  # type: ignore[arg-type]
    with pytest.raises(InvalidPayload, match=r"no word for .*Proxy"):
        encode({"a": Proxy()})


def test_a_dict_that_shows_other_items_than_it_holds_is_stored_as_it_is() -> None:
    class Liar(dict[str, Any]):
        def items(self) -> Any:
            return [(1, (2, 3))]

        def __iter__(self) -> Iterator[str]:
            return iter(["x"])

    assert encode(Liar(a=1)) == '{"a":1}'


def test_a_class_with_an_unstorable_name_is_refused_in_storable_words() -> None:
    odd = type("Odd", (), {"__module__": 7})
    odd.__qualname__ = "A\0\ud800\n" + "x" * 1000

    with pytest.raises(InvalidPayload) as refused:
        encode_result(odd())

    said = str(refused.value)
    said.encode()
    assert "\0" not in said
    assert "A\\u0000\\ud800\\u000a" in said
    assert len(said) < 500
