// The tip of a chart: under the pointer, or the arrow keys, it says what the chart's table says.
{
  const clocks = {
    time: new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" }),
    day: new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }),
  };
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";

  const show = (area, share) => {
    const figure = area.closest(".chart");
    const rows = [...figure.querySelectorAll("tbody tr")];
    const [cross, tip] = [area.querySelector(".cross"), area.querySelector(".tip")];
    if (!rows.length || !tip) return;
    const n = Math.min(Math.max(Math.round(share * (rows.length - 1)), 0), rows.length - 1);
    area.dataset.at = String(n);
    const at = rows.length > 1 ? n / (rows.length - 1) : 0;
    const head = document.createElement("b");
    head.textContent = clocks.day.format(new Date(rows[n].querySelector("time").dateTime));
    const labels = [...figure.querySelectorAll(".legend li")];
    const lines = [...rows[n].querySelectorAll("td")].map((cell, k) => {
      const line = document.createElement("p");
      const value = document.createElement("span");
      value.textContent = cell.textContent;
      line.append(labels[k].querySelector("i").cloneNode(), labels[k].textContent, value);
      return line;
    });
    tip.replaceChildren(head, ...lines);
    cross.hidden = tip.hidden = false;
    const width = area.clientWidth;
    cross.style.left = `${at * width}px`;
    const left = at * width > width / 2 ? at * width - tip.offsetWidth - 12 : at * width + 12;
    tip.style.left = `${Math.min(Math.max(left, -40), Math.max(width - tip.offsetWidth, 0))}px`;
  };
  const hide = (area) => {
    for (const each of area.querySelectorAll(".cross, .tip")) each.hidden = true;
    delete area.dataset.at;
  };

  document.addEventListener("pointermove", (event) => {
    const area = event.target.closest && event.target.closest("[data-chart]");
    for (const other of document.querySelectorAll("[data-chart][data-at]")) if (other !== area) hide(other);
    if (!area) return;
    const box = area.getBoundingClientRect();
    show(area, (event.clientX - box.left) / box.width);
  });
  document.addEventListener("pointerleave", () => document.querySelectorAll("[data-chart][data-at]").forEach(hide));

  // Moments are shown in the reader's own time.
  const local = () => {
    for (const time of document.querySelectorAll("time[data-clock]")) {
      const said = clocks[time.dataset.clock].format(new Date(time.dateTime));
      if (time.textContent !== said) time.textContent = said;
      time.title = here;
    }
    for (const time of document.querySelectorAll("time[datetime]:not([data-clock])")) {
      const title = `${new Date(time.dateTime).toLocaleString()} (${here})`;
      if (time.title !== title) time.title = title;
    }
  };
  local();
  document.addEventListener("wherry:fresh", () => {
    local();
    for (const area of document.querySelectorAll("[data-chart][data-at]")) {
      const rows = area.closest(".chart").querySelectorAll("tbody tr").length;
      show(area, Number(area.dataset.at) / Math.max(rows - 1, 1));
    }
  });
}
