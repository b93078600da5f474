"use strict";

// Changes a tree in place until it is like another one: what is focused, opened or half typed in
// stays so, which would be lost if it were replaced.
const wherry = {};

{
  // The attribute: to a form, `id` is its field of that name if it has one.
  const key = (node) => (node.nodeType === Node.ELEMENT_NODE && node.getAttribute("id")) || null;
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && key(a) === key(b);
  // What a person does to an element, and no server knows.
  const theirs = new Set(["open", "value", "checked", "data-at"]);

  const attributes = (from, to) => {
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && !theirs.has(name)) from.removeAttribute(name);
    }
    for (const { name, value } of to.attributes) {
      if (!theirs.has(name) && from.getAttribute(name) !== value) from.setAttribute(name, value);
    }
  };

  wherry.morph = (from, to) => {
    if (from.nodeType === Node.TEXT_NODE) {
      if (from.data !== to.data) from.data = to.data;
      return;
    }
    if (from.nodeType !== Node.ELEMENT_NODE || from.isEqualNode(to) || from.hasAttribute("data-keep")) return;
    const classes = from.classList.contains("is-at");
    attributes(from, to);
    if (classes) from.classList.add("is-at");
    const keyed = new Map();
    for (const child of from.children) if (key(child)) keyed.set(key(child), child);
    let at = from.firstChild;
    for (const wanted of [...to.childNodes]) {
      const same = key(wanted) ? keyed.get(key(wanted)) : null;
      if (same && same !== at) from.insertBefore(same, at);
      const found = same || (at && alike(at, wanted) ? at : null);
      if (found) {
        wherry.morph(found, wanted);
        at = found.nextSibling;
      } else {
        from.insertBefore(wanted, at);
      }
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  };

  // The only place where text becomes elements; it came from our own server, escaped.
  const policy = window.trustedTypes
    ? window.trustedTypes.createPolicy("wherry", { createHTML: (text) => text })
    : { createHTML: (text) => text };
  wherry.parse = (text) => new DOMParser().parseFromString(policy.createHTML(text), "text/html");

  // Gets a page of ours without its frame. An answer of any other kind is null.
  wherry.get = async (address, signal) => {
    const answer = await fetch(address, { headers: { "X-Wherry-Parts": "1" }, signal });
    if (answer.status === 401) {
      location.reload();
      return null;
    }
    const media = answer.headers.get("content-type") || "";
    return media.startsWith("text/html") ? wherry.parse(await answer.text()) : null;
  };
  wherry.say = (text) => {
    document.getElementById("announce").textContent = text;
  };
}
