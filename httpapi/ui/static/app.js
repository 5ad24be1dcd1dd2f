// Live updates, copying, selection and the chart of the overview. Every page works without it.
(() => {
  "use strict";
  const live = document.getElementById("live");
  const sign = document.getElementById("live-sign");
  let paused = false;

  const show = (state, text) => {
    if (!sign) return;
    sign.hidden = false;
    sign.dataset.state = state;
    sign.textContent = text;
  };
  if (live && live.hasAttribute("hx-get")) {
    show("live", "live");
    sign.addEventListener("click", () => {
      paused = !paused;
      sign.setAttribute("aria-pressed", String(paused));
      if (paused) show("paused", "paused"); else { show("live", "live"); htmx.trigger(live, "refresh"); }
    });
    document.addEventListener("visibilitychange", () => { if (!document.hidden && !paused) htmx.trigger(live, "refresh"); });
  }
  // Hidden tabs and paused pages ask for nothing.
  document.addEventListener("htmx:before:request", (e) => { if (e.target === live && (paused || document.hidden)) e.preventDefault(); });
  // What a reader has opened stays open: the server sends it closed.
  const opened = new Set();
  document.addEventListener("click", (e) => {
    const details = e.target.closest("#live details[id] > summary")?.parentElement;
    if (details) opened[details.open ? "delete" : "add"](details.id);
  });
  document.addEventListener("htmx:error", () => show("offline", "no connection"));
  document.addEventListener("htmx:after:swap", () => {
    if (!paused) show("live", "live");
    for (const id of opened) { const d = document.getElementById(id); if (d) d.open = true; }
    count();
    record();
  });

  // Copying works without HTTPS too.
  document.addEventListener("click", (e) => {
    const button = e.target.closest("[data-copy]");
    if (!button) return;
    const area = document.createElement("textarea");
    area.value = button.dataset.copy;
    area.className = "skip";
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
    const was = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = was; }, 1200);
  });

  // On a narrow screen the menu scrolls: show the entry of this page.
  const here = document.querySelector(".menu [aria-current]");
  if (here) here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.offsetLeft - 40;

  // The number of selected rows.
  const count = () => {
    const out = document.getElementById("selected");
    if (!out) return;
    const n = document.querySelectorAll("input[name=id]:checked").length;
    out.textContent = n ? n + " selected" : "";
  };
  document.addEventListener("change", (e) => {
    if (e.target.id === "select-all") {
      for (const box of document.querySelectorAll("input[name=id]")) box.checked = e.target.checked;
    }
    count();
  });

  // A form that was sent cannot be sent again by a second click.
  document.addEventListener("submit", (e) => {
    if (e.target.method !== "post") return;
    setTimeout(() => { for (const b of e.target.querySelectorAll("button")) b.disabled = true; });
  });
  window.addEventListener("pageshow", () => { for (const b of document.querySelectorAll("form button")) b.disabled = false; });

  // Single keys, as on other pages of this sort.
  let prefix = false;
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select, [contenteditable]")) return;
    if (prefix) {
      prefix = false;
      const to = document.querySelector(".menu a[data-key='" + CSS.escape(e.key) + "']");
      if (to) to.click();
    } else if (e.key === "g") {
      prefix = true;
      setTimeout(() => { prefix = false; }, 1500);
    } else if (e.key === "/") {
      e.preventDefault();
      document.querySelector(".find input").focus();
    }
  });

  // The chart of the overview: what this page has seen since it was opened.
  const chart = document.getElementById("chart");
  const series = [["ready", "--accent"], ["running", "--run"], ["awaiting", "--wait"], ["failed", "--bad"]];
  const most = 900;
  const data = [[], ...series.map(() => [])];
  let plot = null;
  const record = () => {
    if (!chart || typeof uPlot === "undefined") return;
    const counts = document.getElementById("counts");
    if (!counts) return;
    data[0].push(Date.now() / 1000);
    series.forEach(([name], i) => data[i + 1].push(Number(counts.dataset[name])));
    if (data[0].length > most) for (const column of data) column.shift();
    if (plot) plot.setData(data); else draw();
  };
  const clock = (t) => new Date(t * 1000).toLocaleTimeString("en-GB");
  const draw = () => {
    const style = getComputedStyle(document.documentElement);
    const resolve = (name) => { chart.style.color = "var(" + name + ")"; const c = getComputedStyle(chart).color; chart.style.color = ""; return c; };
    const axis = { stroke: resolve("--muted"), grid: { stroke: resolve("--line"), width: 1 }, ticks: { show: false }, font: "11px " + style.fontFamily };
    plot = new uPlot({
      width: chart.clientWidth - 20, height: 132, cursor: { y: false }, legend: { live: true },
      scales: { y: { range: (u, min, max) => [0, Math.max(max * 1.1, 4)] } },
      axes: [{ ...axis, space: 90, size: 28, incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300], values: (u, at) => at.map(clock) }, { ...axis, size: 44, values: (u, at) => at.map((n) => n.toLocaleString("en")) }],
      series: [{ label: "time", value: (u, t) => t == null ? "–" : clock(t) }, ...series.map(([name, color]) => ({ label: name, stroke: resolve(color), width: 1.6, points: { show: false } }))],
    }, data, chart);
  };
  const redraw = () => { if (plot) { plot.destroy(); plot = null; draw(); } };
  window.addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  record();
})();
