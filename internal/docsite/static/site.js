// The search: sections of all pages, found by all words of the text, also by their beginnings and with a letter wrong.
(() => {
  const root = document.currentScript.dataset.root;
  const input = document.getElementById("search"), found = document.getElementById("found");
  const most = 12, around = 60;
  const weights = { guides: 2, decisions: 0.5, internals: 0.5 }; // who searches wants to do something, more often than to know why
  let engine, chosen = -1;

  // It takes some milliseconds, so it waits until somebody searches.
  function index() {
    if (!engine) {
      engine = new MiniSearch({
        fields: ["title", "page", "text"], storeFields: ["url", "title", "page", "text"],
        searchOptions: { boost: { title: 4, page: 2 }, prefix: true, fuzzy: (term) => (term.length > 4 ? 0.2 : false), combineWith: "AND",
          boostDocument: (_, __, s) => weights[s.url.split("/")[0]] ?? 1 },
      });
      engine.addAll(window.searchIndex);
    }
    return engine;
  }

  // The text around all words in a row, else around the first match, with the matches marked. It is set as text, never as HTML.
  function excerpt(hit) {
    const small = document.createElement("small"), lower = hit.text.toLowerCase();
    const row = lower.indexOf(input.value.trim().toLowerCase());
    const first = row >= 0 ? row : Math.min(...hit.terms.map((t) => lower.indexOf(t)).map((i) => (i < 0 ? Infinity : i)));
    const at = Math.max(first - around, 0);
    const from = Number.isFinite(at) ? at : 0, part = hit.text.slice(from, from + 3 * around);
    const words = hit.terms.map((t) => t.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    small.append(from > 0 ? "… " : "");
    part.split(new RegExp(`(${words.join("|")})`, "gi")).forEach((piece, i) => {
      if (i % 2) { const b = document.createElement("b"); b.textContent = piece; small.append(b); } else { small.append(piece); }
    });
    small.append(from + part.length < hit.text.length ? " …" : "");
    return small;
  }

  function show() {
    const text = input.value.trim();
    found.replaceChildren();
    chosen = -1;
    found.hidden = text === "";
    input.setAttribute("aria-expanded", String(!found.hidden));
    input.removeAttribute("aria-activedescendant");
    if (found.hidden) return;
    const hits = index().search(text).slice(0, most);
    hits.forEach((hit, i) => {
      const a = document.createElement("a");
      a.href = root + hit.url;
      a.id = "found-" + i;
      a.role = "option";
      a.ariaSelected = "false";
      a.append(hit.title === hit.page ? hit.title : `${hit.title} · ${hit.page}`, excerpt(hit));
      found.append(a);
    });
    if (hits.length === 0) {
      const p = document.createElement("p");
      p.textContent = "No section has all of these words.";
      found.append(p);
    }
  }

  function choose(step) {
    const all = found.querySelectorAll("a");
    if (all.length === 0) return;
    if (chosen >= 0) all[chosen].ariaSelected = "false";
    chosen = (chosen + step + all.length) % all.length;
    all[chosen].ariaSelected = "true";
    all[chosen].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", all[chosen].id);
  }

  input.addEventListener("input", show);
  input.addEventListener("keydown", (e) => {
    const links = found.querySelectorAll("a");
    if (e.key === "ArrowDown") { e.preventDefault(); choose(1); }
    if (e.key === "ArrowUp") { e.preventDefault(); choose(chosen < 0 ? 0 : -1); }
    if (e.key === "Enter" && links.length > 0) { e.preventDefault(); input.blur(); links[Math.max(chosen, 0)].click(); hide(); }
    if (e.key === "Escape") { input.value = ""; show(); }
  });
  function hide() { found.hidden = true; input.setAttribute("aria-expanded", "false"); }
  document.addEventListener("click", (e) => { if (!e.target.closest(".search")) hide(); });
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && !/^(input|textarea|select)$/i.test(e.target.tagName)) { e.preventDefault(); input.focus(); }
  });
})();
