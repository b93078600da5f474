// Copies what an element says: a payload, or whatever else is long.
for (const button of document.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
document.addEventListener("wherry:fresh", () => {
  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
});
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(text.textContent);
    wherry.say("Copied");
    button.querySelector("span").textContent = "Copied";
    setTimeout(() => { button.querySelector("span").textContent = "Copy"; }, 1600);
  } catch {
    wherry.say("The browser does not let this page copy");
  }
});
