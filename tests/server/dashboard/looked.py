"""What a browser would find in a page: its elements, their attributes, and the text in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_EMPTY = frozenset({"meta", "link", "input", "br", "hr", "path", "rect", "line", "circle", "img"})


@dataclass
class Element:
    """An element, with what is in it in its order."""

    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list["Element | str"])

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    @property
    def all(self) -> list[Element]:
        """It, and all elements in it."""
        inner = [child for child in self.children if isinstance(child, Element)]
        return [self, *(each for child in inner for each in child.all)]

    def find(self, tag: str | None = None, /, **attributes: str) -> list[Element]:
        """Return the elements of this tag with these attributes; `cls` is one of their classes."""
        cls = attributes.pop("cls", None)
        return [
            each
            for each in self.all
            if (tag is None or each.tag == tag)
            and (cls is None or cls in each.attributes.get("class", "").split())
            and all(each.attributes.get(name) == value for name, value in attributes.items())
        ]

    def at(self, id: str) -> Element:
        """Return the element of this id."""
        [found] = self.find(id=id)
        return found


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in _EMPTY:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag not in _EMPTY:
            assert self.open[-1].tag == tag, f"</{tag}> ends <{self.open[-1].tag}>"
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def looked(html: str) -> Element:
    """Return the page; its elements have to be well nested."""
    builder = _Builder()
    builder.feed(html)
    builder.close()
    [root] = builder.open
    return root
