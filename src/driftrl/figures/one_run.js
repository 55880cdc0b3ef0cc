// The figure of one run: a strip for each column, filled with the run that is chosen.
class OneRun {
  constructor(box, key, skeleton, readRecords, drawInto) {
    Object.assign(this, { box, key, skeleton, readRecords, drawInto });
    this.select = box.querySelector("select");
    this.select.addEventListener("change", () => this.show());
    for (const button of box.querySelectorAll(".choice button")) {
      button.addEventListener("click", () => this.step(Number(button.value)));
    }
  }

  open() {
    this.records = this.readRecords();
    let group;
    this.records.header.runs.forEach((run, index) => {
      if (group?.label !== run.name) {
        group = document.createElement("optgroup");
        group.label = run.name;
        this.select.append(group);
      }
      group.append(new Option(run.label, String(index)));
    });
    this.box.classList.add("open");
    this.show();
  }

  step(by) {
    const count = this.select.options.length;
    this.select.selectedIndex = (this.select.selectedIndex + by + count) % count;
    this.show();
  }

  show() {
    const index = Number(this.select.value);
    const run = this.records.header.runs[index];
    const facts = `${run.label}: ${run.facts}`;
    const left = run.episodes < run.planned ? `, ${run.episodes} of ${run.planned}` : "";
    this.box.querySelector(".facts").textContent = facts + left;
    const data = this.skeleton.data.map((trace) => this.filled(trace, run, index));
    const layout = structuredClone(this.skeleton.layout);
    layout.xaxis.range = [0.5, run.episodes + 0.5];
    if (run.resets.length) layout.shapes = [resetLines(run.resets)];
    this.drawInto(this.key, data, layout);
  }

  filled(trace, run, index) {
    const { header } = this.records;
    const labels = { method: run.method, seed: run.seed, ...trace.meta.labels };
    const colour = trace.meta.own ? run.colour : trace.line.color;
    return {
      ...trace,
      x0: this.records.first(index),
      dx: header.every,
      y: this.records.column(index, trace.meta.column),
      line: { ...trace.line, color: colour },
      meta: { ...trace.meta, labels },
    };
  }
}

function resetLines(episodes) {
  return {
    type: "path",
    path: episodes.map((episode) => `M${episode - 0.5},0V1`).join(""),
    xref: "x",
    yref: "paper",
    line: { color: "#767676", width: 1, dash: "dot" },
    layer: "below",
  };
}
