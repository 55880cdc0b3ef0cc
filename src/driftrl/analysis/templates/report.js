"use strict";
// Without a pointer that hovers, a finger on a figure should scroll the page, not zoom.
const hasPointer = window.matchMedia("(hover: hover)").matches;
const config = {
  displayModeBar: hasPointer ? "hover" : false,
  modeBarButtons: [["toImage", "resetScale2d"]],
  displaylogo: false,
  responsive: true,
  showSendToCloud: false,
  plotlyServerURL: "",
};
const PAPER_PIXELS = 680; // width of an upright sheet of A4 without its margins

// Data lies in the page as base64 of gzip; reading it needs no request.
async function embedded() {
  const letters = atob(document.getElementById("data").textContent);
  const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function save(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  // Not before the browser has begun to write it.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function csv(rows) {
  const header = [...new Set(rows.flatMap(Object.keys))];
  const cell = (value) => {
    const text = String(value ?? "");
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [header, ...rows.map((row) => header.map((name) => row[name]))];
  return lines.map((line) => `${line.map(cell).join(",")}\n`).join("");
}

function runRows({ text, columns }) {
  const names = Object.keys(columns);
  return columns.episode.map((_, index) => {
    const numbers = names.map((name) => [name, columns[name][index]]);
    return { ...text, ...Object.fromEntries(numbers) };
  });
}

class Page {
  constructor(figures, runs) {
    Object.assign(this, { figures, runs });
    this.drawn = new Set();
    this.hidden = new Map(); // by problem, the methods that were clicked away
  }

  box(key) {
    return document.getElementById(`plot-${key}`);
  }

  isHidden(key, trace) {
    const { problem } = this.box(key).dataset;
    return this.hidden.get(problem)?.has(trace.meta?.method) ?? false;
  }

  draw(key) {
    const { data, layout } = this.figures[key];
    for (const trace of data) trace.visible = !this.isHidden(key, trace);
    if (!hasPointer) layout.dragmode = false;
    this.drawn.add(key);
    Plotly.react(this.box(key), data, layout, config);
  }

  toggle(button) {
    const { problem, method } = button.dataset;
    const hidden = this.hidden.get(problem) ?? new Set();
    if (!hidden.delete(method)) hidden.add(method);
    this.hidden.set(problem, hidden);
    button.setAttribute("aria-pressed", String(!hidden.has(method)));
    for (const key of this.drawn) {
      if (this.box(key).dataset.problem === problem) this.draw(key);
    }
  }

  // Figures are drawn when they come near to the window, and all before printing.
  drawLazily() {
    const observer = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) {
          if (!isIntersecting) continue;
          observer.unobserve(target);
          if (!this.drawn.has(target.dataset.key)) this.draw(target.dataset.key);
        }
      },
      { rootMargin: "300px" },
    );
    for (const box of document.querySelectorAll(".plot")) {
      box.style.minHeight = `${this.figures[box.dataset.key].layout.height}px`;
      observer.observe(box);
    }
  }

  addDownload() {
    const records = document.getElementById("download");
    records.addEventListener("click", () => {
      save(records.dataset.file, csv(this.runs.flatMap(runRows)));
    });
  }

  // Paper is narrower than most windows, and nothing on it can be clicked.
  prepareForPaper() {
    const resize = (change) => {
      for (const key of this.drawn) Plotly.relayout(this.box(key), change(this.box(key)));
    };
    let opened = [];
    window.addEventListener("beforeprint", () => {
      opened = [...document.querySelectorAll("details:not(.long):not([open])")];
      for (const details of opened) details.open = true;
      document.body.classList.add("paper");
      document.body.style.width = `${PAPER_PIXELS}px`;
      for (const key of Object.keys(this.figures)) {
        if (key !== "run" && !this.drawn.has(key)) this.draw(key);
      }
      resize((box) => ({ width: box.clientWidth }));
    });
    window.addEventListener("afterprint", () => {
      for (const details of opened) details.open = false;
      document.body.classList.remove("paper");
      document.body.style.width = "";
      resize(() => ({ width: null, autosize: true }));
    });
  }

  // ---- one run: a strip for each quantity ----

  addRuns() {
    const select = document.getElementById("run");
    let group;
    this.runs.forEach((run, index) => {
      if (group?.label !== run.group) {
        group = document.createElement("optgroup");
        group.label = run.group;
        select.append(group);
      }
      group.append(new Option(run.label, String(index)));
    });
    select.addEventListener("change", () => this.showRun());
    for (const button of document.querySelectorAll("button.step")) {
      button.addEventListener("click", () => {
        const count = this.runs.length;
        const next = select.selectedIndex + Number(button.value);
        select.selectedIndex = (next + count) % count;
        this.showRun();
      });
    }
    this.fillRun();
  }

  showRun() {
    this.fillRun();
    this.draw("run");
  }

  fillRun() {
    const run = this.runs[Number(document.getElementById("run").value)];
    document.getElementById("facts").textContent = run.facts;
    const episodes = run.columns.episode;
    const figure = this.figures.run;
    for (const trace of figure.data) {
      trace.x = episodes;
      trace.y = run.columns[trace.meta.column];
      if (trace.meta.coloured) trace.line.color = run.colour;
    }
    figure.layout.xaxis.range = [0.5, episodes.at(-1) + 0.5];
    figure.layout.shapes = run.resets.map((episode) => ({
      type: "line",
      x0: episode - 0.5,
      x1: episode - 0.5,
      yref: "paper",
      y0: 0,
      y1: 1,
      line: { color: "#767676", width: 1, dash: "dot" },
      layer: "below",
    }));
  }
}

// On a narrow window tables are cut, which nothing else would tell.
function markCut() {
  const observer = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      target.classList.toggle("cut", target.scrollWidth > target.clientWidth);
    }
  });
  for (const box of document.querySelectorAll(".scroll")) observer.observe(box);
}

async function start() {
  const { figures, runs } = await embedded();
  const page = new Page(figures, runs);
  page.addRuns();
  page.addDownload();
  for (const button of document.querySelectorAll("button.method")) {
    button.addEventListener("click", () => page.toggle(button));
  }
  page.drawLazily();
  page.prepareForPaper();
  document.body.dataset.ready = "true";
}

markCut();
if (typeof DecompressionStream === "undefined") {
  document.getElementById("trouble").hidden = false;
} else {
  start();
}
