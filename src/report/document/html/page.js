// Interaction of the HTML report: details of nodes, keyboard navigation and filters.
"use strict";
(() => {
  const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));
  const row = (cell) => document.getElementById(cell.hash.slice(1));
  const grids = all(".grid");
  if (grids.length === 0) return;

  // Details of the current node, at the bottom of the window.
  const detail = document.createElement("div");
  detail.id = "detail";
  detail.hidden = true;
  document.body.append(detail);
  const show = (cell) => {
    const line = row(cell);
    if (!line) return;
    const heads = all("thead th", line.closest("table"));
    const parts = Array.from(line.cells).map((value, index) => {
      const part = document.createElement(index === 0 ? "b" : "span");
      const text = value.textContent;
      part.textContent = index < 2 ? text : heads[index].textContent + " " + text;
      return part;
    });
    detail.replaceChildren(...parts);
    detail.hidden = false;
  };

  // The Tab key stops once per grid; arrow keys move between nodes.
  const shown = (grid) => all("li:not([hidden]) > a", grid);
  const enter = (grid, cell) => {
    for (const other of all('a[tabindex="0"], a:not([tabindex])', grid)) other.tabIndex = -1;
    if (cell) cell.tabIndex = 0;
  };
  const columns = (cells) => {
    const top = cells[0].parentNode.offsetTop;
    const next = cells.findIndex((cell) => cell.parentNode.offsetTop > top);
    return next < 0 ? cells.length : next;
  };
  const steps = {
    ArrowRight: () => 1, ArrowLeft: () => -1, ArrowDown: columns, ArrowUp: (cells) => -columns(cells),
    Home: (cells, at) => -at, End: (cells, at) => cells.length - 1 - at,
  };
  for (const grid of grids) {
    enter(grid, shown(grid)[0]);
    grid.addEventListener("keydown", (event) => {
      const step = steps[event.key];
      if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
      const cells = shown(grid);
      const at = cells.indexOf(event.target);
      if (at < 0) return;
      event.preventDefault();
      const to = cells[at + step(cells, at)];
      if (!to) return;
      enter(grid, to);
      to.focus();
    });
    grid.addEventListener("focusin", (event) => {
      enter(grid, event.target);
      show(event.target);
    });
    grid.addEventListener("pointerover", (event) => {
      if (event.target.hash) show(event.target);
    });
    // A row of a collapsed table cannot be a link target.
    grid.addEventListener("click", (event) => {
      const line = event.target.hash && row(event.target);
      if (!line) return;
      line.closest("details").open = true;
      setTimeout(() => line.focus({ preventScroll: true }));
    });
  }
  document.querySelector(".keys").hidden = false;
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") detail.hidden = true;
  });

  // Filters by state and by part of a node or pool name.
  const chosen = new Set();
  const found = document.querySelector(".found");
  const input = document.querySelector(".search input");
  const filter = () => {
    const words = input.value.trim().toLowerCase();
    let number = 0;
    let total = 0;
    for (const grid of grids) {
      const section = grid.closest(".pool");
      const whole = words !== "" && section.querySelector("h3").textContent.toLowerCase().includes(words);
      let here = 0;
      for (const cell of all("a", grid)) {
        const name = cell.getAttribute("aria-label").toLowerCase();
        const match = (chosen.size === 0 || chosen.has(cell.className)) && (whole || name.includes(words));
        cell.parentNode.hidden = !match;
        row(cell).hidden = !match;
        here += match ? 1 : 0;
        total += 1;
      }
      section.hidden = here === 0;
      number += here;
      enter(grid, shown(grid)[0]);
    }
    const some = chosen.size > 0 || words !== "";
    found.textContent = some ? number + " of " + total + " nodes shown" : "";
  };
  for (const chip of all(".legend .chip")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "chip";
    button.setAttribute("aria-pressed", "false");
    button.append(...chip.childNodes);
    const state = button.querySelector("i").className;
    button.addEventListener("click", () => {
      const on = !chosen.delete(state);
      if (on) chosen.add(state);
      button.setAttribute("aria-pressed", String(on));
      filter();
    });
    chip.replaceWith(button);
  }
  let waiting = 0;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(filter, 120);
  });
  input.closest("label").hidden = false;
  // A link to a node expands its table.
  window.addEventListener("hashchange", () => {
    const line = document.getElementById(location.hash.slice(1));
    if (line && line.closest("details")) line.closest("details").open = true;
  });
})();
