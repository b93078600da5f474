// The live view: the server says that something has changed, and this gets the page anew. It rests
// while nobody looks at the tab, and while somebody has paused it.
{
  const main = document.getElementById("content");
  const toggle = document.querySelector("[data-live-toggle]");
  const text = document.querySelector("[data-live-text]");
  let events = null;
  let paused = sessionStorage.getItem("wherry-paused") === "1";
  let asking = null;
  let again = false;
  let retrySeconds = 1;
  let retry = null;

  const show = (state, said) => {
    toggle.dataset.state = state;
    text.textContent = said;
    toggle.setAttribute("aria-pressed", String(!paused));
  };

  const refresh = async () => {
    // What took too long is not asked again and again.
    if (main.querySelector("[data-still]")) return;
    if (asking) {
      again = true;
      return;
    }
    asking = new AbortController();
    try {
      const page = await wherry.get(location.href, asking.signal);
      const found = page && page.getElementById("content");
      if (found && events) {
        const said = document.getElementById("said");
        if (said && !found.querySelector("#said")) found.querySelector(".head").after(said.cloneNode(true));
        const focused = document.activeElement;
        wherry.morph(main, found);
        // An element that was moved has lost it.
        if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
        document.dispatchEvent(new Event("wherry:fresh"));
        toggle.removeAttribute("data-beat");
        requestAnimationFrame(() => toggle.setAttribute("data-beat", ""));
      }
    } catch {
      // The stream notices a server that is gone, and says so.
    } finally {
      asking = null;
      if (again) {
        again = false;
        refresh();
      }
    }
  };

  const close = () => {
    clearTimeout(retry);
    if (events) events.close();
    events = null;
    if (asking) asking.abort();
  };

  const open = () => {
    close();
    if (paused || document.hidden) return;
    events = new EventSource("events");
    events.addEventListener("open", () => {
      retrySeconds = 1;
      show("live", "Live");
    });
    events.addEventListener("changed", refresh);
    events.addEventListener("error", () => {
      show("lost", "Reconnecting …");
      if (events && events.readyState === EventSource.CLOSED) {
        close();
        retry = setTimeout(open, retrySeconds * 1000);
        retrySeconds = Math.min(retrySeconds * 2, 30);
      }
    });
  };

  const pause = (wanted) => {
    paused = wanted;
    sessionStorage.setItem("wherry-paused", paused ? "1" : "0");
    if (paused) {
      close();
      show("paused", "Paused");
      wherry.say("The live view is paused");
    } else {
      show("live", "Live");
      open();
      refresh();
      wherry.say("The live view goes on");
    }
  };

  if (toggle && main) {
    wherry.togglePause = () => pause(!paused);
    toggle.hidden = false;
    toggle.addEventListener("click", wherry.togglePause);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) close();
      else if (!paused) {
        open();
        refresh();
      }
    });
    window.addEventListener("pagehide", close);
    window.addEventListener("pageshow", (event) => event.persisted && open());
    if (paused) show("paused", "Paused");
    else {
      show("live", "Live");
      open();
    }
  }

  // Times that are told as "5 s ago" go on without the server.
  const span = (seconds) => {
    if (seconds < 59.5) return `${Math.round(seconds)} s`;
    const units = [[86400, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 1, "s"]];
    for (const [unit, letter, part, partLetter] of units) {
      if (seconds < unit) continue;
      const more = Math.floor((Math.floor(seconds) % unit) / part);
      return `${Math.floor(seconds / unit).toLocaleString("en")}${letter}${more ? ` ${more}${partLetter}` : ""}`;
    }
    return "";
  };
  setInterval(() => {
    if (document.hidden) return;
    for (const time of document.querySelectorAll("time[datetime]:not([data-clock], [data-as-it-is])")) {
      const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
      const said = Math.abs(seconds) < 1 ? "now" : seconds < 0 ? `in ${span(-seconds)}` : `${span(seconds)} ago`;
      if (time.textContent !== said) time.textContent = said;
    }
  }, 1000);
}
