// Keys, and questions as dialogs. Everything works without this, by links and forms.
{
  const typing = (event) => event.target.closest("input, textarea, select, [contenteditable]");
  let gone = 0;

  const rows = () => [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent);
  const move = (by) => {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((row) => row.classList.contains("is-at"));
    const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1);
    all.forEach((row, n) => row.classList.toggle("is-at", n === next));
    const link = all[next].querySelector("a.row-link, a, button");
    if (link) link.focus({ preventScroll: true });
    all[next].scrollIntoView({ block: "nearest" });
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (typing(event)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    const isAfterG = Date.now() - gone < 1200;
    gone = 0;
    if (isAfterG) {
      const place = document.querySelector(`.places a[data-key="${CSS.escape(event.key)}"]`);
      if (place) place.click();
      return;
    }
    const search = document.querySelector("[data-search]");
    switch (event.key) {
      case "g": gone = Date.now(); break;
      case "/": {
        event.preventDefault();
        const tasks = document.querySelector('.places a[data-key="t"]');
        if (search) {
          search.focus();
          search.select();
        } else if (tasks) tasks.click();
        break;
      }
      case "j": move(1); break;
      case "k": move(-1); break;
      case "p": if (wherry.togglePause) wherry.togglePause(); break;
      case "?": document.getElementById("keys").showModal(); break;
    }
  });

  const dialog = document.getElementById("dialog");
  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-dialog]");
    if (event.target.closest("[data-close]") && dialog && dialog.open) {
      event.preventDefault();
      dialog.close();
    }
    if (!link || !dialog || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    try {
      const page = await wherry.get(link.href);
      const question = page && page.getElementById("question");
      if (!question) throw new Error("no question");
      const title = document.createElement("h2");
      title.id = "dialog-title";
      title.textContent = page.querySelector("h1").textContent;
      dialog.replaceChildren(title, question);
      dialog.showModal();
      const first = dialog.querySelector("textarea, input:not([type=hidden]), select");
      if (first) first.focus();
    } catch {
      location.href = link.href;
    }
  });
  // A click beside a dialog closes it.
  for (const each of document.querySelectorAll("dialog")) {
    each.addEventListener("click", (event) => event.target === each && each.close());
  }
  // A form that was sent is not sent twice.
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (event.target.method === "post" && button && !button.name) setTimeout(() => { button.disabled = true; });
  });
}
