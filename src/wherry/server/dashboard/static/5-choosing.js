// Lists whose rows can be chosen, filters that leave out what is empty, and changes that go on.
{
  const boxes = () => [...document.querySelectorAll('[data-choosing] input[name="ids"]')];
  const tell = () => {
    const list = document.querySelector("[data-choosing]");
    const all = document.querySelector("[data-choose-all]");
    if (!list || !all) return;
    const [every, chosen] = [boxes(), boxes().filter((box) => box.checked)];
    all.disabled = false;
    all.checked = chosen.length > 0 && chosen.length === every.length;
    all.indeterminate = chosen.length > 0 && chosen.length < every.length;
    list.toggleAttribute("data-has-chosen", chosen.length > 0);
    const text = list.querySelector("[data-chosen-text]");
    text.textContent = chosen.length ? `${chosen.length} chosen` : text.dataset.allText;
  };
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-choose-all]")) {
      for (const box of boxes()) box.checked = event.target.checked;
    }
    if (event.target.closest("[data-choosing]")) tell();
    if (event.target.matches('[data-finder] input[name="state"]')) event.target.form.requestSubmit();
  });
  document.addEventListener("wherry:fresh", tell);
  tell();

  document.addEventListener("submit", (event) => {
    if (event.target.method !== "get") return;
    for (const field of event.target.elements) {
      if (field.name && !field.value) field.disabled = true;
    }
  });
  window.addEventListener("pageshow", () => {
    for (const field of document.querySelectorAll("[data-finder] :disabled")) field.disabled = false;
  });

  const goesOn = document.querySelector("form[data-go-on]");
  if (goesOn) setTimeout(() => goesOn.requestSubmit(), 150);
}
