// Without a pointer that hovers there is no way to hide the buttons again, and a finger
// on a figure should scroll the page instead of zooming the figure.
const hasPointer = window.matchMedia("(hover: hover)").matches;
const config = {
  displayModeBar: hasPointer ? "hover" : false,
  modeBarButtons: [["toImage", "resetScale2d"]],
  displaylogo: false,
  responsive: true,
  // The page sends nothing anywhere: no button for it, and no address.
  showSendToCloud: false,
  plotlyServerURL: "",
};
// Of the names above a figure: a row, a letter, and what is around a name.
const [ROW_PIXELS, LETTER_PIXELS, NAME_PIXELS] = [19, 7, 46];
const PAPER_PIXELS = 680; // width of an upright sheet of A4 less its margins

// Everything that is drawn, as it is drawn: by key, the traces.
const drawn = new Map();
// Names that were clicked away, in each part of the page.
const hidden = new Map();

const boxOf = (key) => document.getElementById(`plot-${key}`);
const partOf = (key) => /^\d+-/.exec(key)?.[0] ?? "";
const hiddenIn = (part) => hidden.get(part) ?? new Set();
const visibility = (trace, part) =>
  trace.legendgroup && hiddenIn(part).has(trace.legendgroup) ? "legendonly" : true;

// One standard error to either side of a line: out along the upper edge, back along the
// lower one.
function bandOf(trace) {
  const x = valuesOf(trace, "x");
  const known = x.map((_, place) => place).filter((place) => {
    return trace.y[place] !== null && (trace.customdata?.[place] ?? null) !== null;
  });
  const edge = (sign) => known.map((place) => trace.y[place] + sign * trace.customdata[place]);
  const along = known.map((place) => x[place]);
  return {
    x: [...along, ...along.toReversed()],
    y: [...edge(1), ...edge(-1).toReversed()],
    yaxis: trace.yaxis,
    fill: "toself",
    fillcolor: trace.meta.band,
    line: { width: 0 },
    mode: "lines",
    legendgroup: trace.legendgroup,
    showlegend: false,
    hoverinfo: "skip",
  };
}

// A narrow window needs more rows for the names; the curves keep their height.
function withRoomForNames(layout, traces, width) {
  if (!layout.meta?.grows_with_names || !layout.showlegend) return layout;
  const names = traces.filter((one) => one.showlegend !== false && one.name);
  let [rows, used] = [1, 0];
  for (const { name } of names) {
    const needed = NAME_PIXELS + LETTER_PIXELS * plainText(name).length;
    if (used && used + needed > width - layout.margin.l - layout.margin.r) {
      [rows, used] = [rows + 1, 0];
    }
    used += needed;
  }
  const more = (rows - 1) * ROW_PIXELS;
  const margin = { ...layout.margin, t: layout.margin.t + more };
  return { ...layout, margin, height: layout.height + more };
}

function drawInto(key, data, layout) {
  const box = boxOf(key);
  const traces = data.flatMap((trace) =>
    trace.meta?.band ? [bandOf(trace), trace] : [trace],
  );
  for (const trace of traces) trace.visible = visibility(trace, partOf(key));
  layout = withRoomForNames(layout, traces, box.clientWidth);
  if (!hasPointer) layout.dragmode = false;
  const isNew = !drawn.has(key);
  drawn.set(key, traces);
  Plotly.react(box, traces, layout, config);
  if (isNew) {
    box.on("plotly_legendclick", (event) => toggled(key, event, false));
    box.on("plotly_legenddoubleclick", (event) => toggled(key, event, true));
  }
}

// A name is hidden, or shown, in all figures of its part of the page.
function toggled(key, event, alone) {
  const group = event.data[event.curveNumber].legendgroup;
  if (!group) return true;
  const part = partOf(key);
  const names = new Set(drawn.get(key).map((trace) => trace.legendgroup));
  const others = [...names].filter((name) => name && name !== group);
  let away = hiddenIn(part);
  if (alone) {
    const isAlone = !away.has(group) && others.every((name) => away.has(name));
    away = new Set(isAlone ? [] : others);
  } else {
    away = new Set(away);
    if (!away.delete(group)) away.add(group);
  }
  hidden.set(part, away);
  for (const [other, traces] of drawn) {
    if (partOf(other) !== part || !traces.some((trace) => trace.legendgroup)) continue;
    Plotly.restyle(boxOf(other), { visible: traces.map((one) => visibility(one, part)) });
  }
  return false;
}

// What is not drawn yet has its numbers before it is seen.
function addDownload(key, drawNow) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "csv";
  button.textContent = "CSV";
  button.title = "Download what is drawn here";
  button.addEventListener("click", () => {
    drawNow(boxOf(key));
    save(fileName(key), figureCsv(drawn.get(key)));
  });
  boxOf(key).closest("figure").querySelector("figcaption").append(" ", button);
}

// Figures are drawn when they come near to the window, and all before printing.
function drawLazily(waiting, drawNow) {
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (!isIntersecting) continue;
        observer.unobserve(target);
        drawNow(target);
      }
    },
    { rootMargin: "300px" },
  );
  for (const target of waiting.keys()) observer.observe(target);
}

// Paper is narrower than most windows, and shows nothing on demand.
function prepareForPaper(waiting, drawNow) {
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not(.long):not([open])")];
    for (const one of opened) one.open = true;
    document.body.style.width = `${PAPER_PIXELS}px`;
    document.body.classList.add("paper");
    // A run is chosen by who looks at it, and paper shows none that was not.
    const figures = [...waiting.keys()].filter((box) => !box.closest(".one-run"));
    figures.forEach(drawNow);
    for (const key of drawn.keys()) {
      Plotly.relayout(boxOf(key), { width: boxOf(key).clientWidth });
    }
  });
  window.addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
    document.body.style.width = "";
    document.body.classList.remove("paper");
    for (const key of drawn.keys()) {
      Plotly.relayout(boxOf(key), { width: null, autosize: true });
    }
  });
}

// On a narrow window tables and printed figures are cut, which nothing else would tell.
function markCut() {
  const observer = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      target.classList.toggle("cut", target.scrollWidth > target.clientWidth);
    }
  });
  for (const box of document.querySelectorAll(".scroll")) observer.observe(box);
}

function start() {
  const { figures, records } = readPageData();
  const read = new Map();
  const recordsOf = (part) => {
    if (!read.has(part)) read.set(part, Records.read(part, records[part]));
    return read.get(part);
  };
  const waiting = new Map();
  const drawNow = (box) => {
    const draw = waiting.get(box);
    waiting.delete(box);
    draw?.();
  };
  for (const [key, figure] of Object.entries(figures)) {
    boxOf(key).style.minHeight = `${figure.layout.height}px`;
    addDownload(key, drawNow);
    waiting.set(boxOf(key), () => drawInto(key, figure.data, figure.layout));
  }
  for (const box of document.querySelectorAll(".one-run")) {
    const { part } = box.dataset;
    const key = `${part}run`;
    const one = new OneRun(box, key, figures[key], () => recordsOf(part), drawInto);
    waiting.set(boxOf(key), () => one.open());
  }
  for (const button of document.querySelectorAll("button.records")) {
    const { part } = button.dataset;
    button.addEventListener("click", () => {
      save(records[part].file, recordsCsv(recordsOf(part)));
    });
  }
  drawLazily(waiting, drawNow);
  prepareForPaper(waiting, drawNow);
}

markCut();
if (typeof [].toReversed === "undefined") {
  document.getElementById("trouble").hidden = false;
} else {
  start();
}
