"use strict";
(() => {
  const root = document.documentElement;
  const theme = document.querySelector(".theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // Filter of the removed documents.
  const form = document.querySelector(".filter");
  if (form) {
    const groups = [...document.querySelectorAll("details.group[data-rule]")];
    const output = form.querySelector("output");
    const apply = () => {
      const text = form.elements.text.value.trim().toLowerCase();
      let shown = 0;
      for (const group of groups) {
        const here = (!form.elements.source.value || group.dataset.source === form.elements.source.value)
          && (!form.elements.rule.value || group.dataset.rule === form.elements.rule.value);
        let cards = 0;
        for (const card of group.querySelectorAll(".card")) {
          card.hidden = text !== "" && !card.textContent.toLowerCase().includes(text);
          cards += card.hidden ? 0 : 1;
        }
        group.hidden = !here || cards === 0;
        shown += group.hidden ? 0 : cards;
        if (!group.hidden && (text || form.elements.rule.value)) group.open = true;
      }
      output.textContent = `${shown} document${shown === 1 ? "" : "s"}`;
    };
    form.hidden = false;
    form.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.elements.toggle.addEventListener("click", () => {
      const open = groups.some((group) => !group.hidden && !group.open);
      for (const group of groups) group.open = open;
      form.elements.toggle.textContent = open ? "Close all" : "Open all";
    });
    apply();
  }

  // Values read off the loss curves, by pointer or arrow keys.
  const data = JSON.parse(document.getElementById("chart-data").textContent);
  for (const svg of document.querySelectorAll("svg[data-chart]")) {
    const chart = data[svg.dataset.chart];
    if (!chart) continue;
    const cursor = svg.querySelector(".cursor");
    const readout = svg.closest("figure").querySelector(".readout");
    const steps = [...new Set(chart.series.flatMap((line) => line.points.map((point) => point[0])))].sort((a, b) => a - b);
    let place = steps.length - 1;
    const nearest = (points, x) => points.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best));
    const show = () => {
      const x = steps[place];
      const [left, right] = chart.plot;
      const at = left + ((x - chart.x[0]) / (chart.x[1] - chart.x[0])) * (right - left);
      cursor.setAttribute("x1", at);
      cursor.setAttribute("x2", at);
      cursor.setAttribute("visibility", "visible");
      const values = chart.series.map((line) => `${line.name} ${nearest(line.points, x)[1].toFixed(3)}`);
      readout.textContent = `${chart.x_label} ${x.toLocaleString("en")}: ${values.join(" · ")}`;
    };
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const [left, right] = chart.plot;
      const inside = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      const x = chart.x[0] + ((inside - left) / (right - left)) * (chart.x[1] - chart.x[0]);
      place = steps.reduce((best, step, index) => (Math.abs(step - x) < Math.abs(steps[best] - x) ? index : best), 0);
      show();
    });
    svg.addEventListener("pointerleave", () => {
      cursor.setAttribute("visibility", "hidden");
      readout.textContent = "";
    });
    svg.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1, Home: -steps.length, End: steps.length }[event.key];
      if (!move) return;
      event.preventDefault();
      place = Math.min(Math.max(place + move, 0), steps.length - 1);
      show();
    });
  }

  // The section in sight, marked in the navigation.
  if ("IntersectionObserver" in window) {
    const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
    const observer = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        for (const link of links.values()) link.classList.remove("here");
        links.get(entry.target.id)?.classList.add("here");
      }
    }, { rootMargin: "-10% 0px -80% 0px" });
    for (const section of document.querySelectorAll("main section")) observer.observe(section);
  }

  // Print everything, also what is folded.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const item of folded) item.open = true;
  });
  addEventListener("afterprint", () => { for (const item of folded) item.open = false; });
})();
