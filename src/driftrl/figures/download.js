// Tables are made when they are asked for, from what is drawn.
function cell(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csvText(header, rows) {
  return [header, ...rows].map((row) => `${row.map(cell).join(",")}\n`).join("");
}

function save(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  // Not before the browser has begun to write it.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// “customdata[1]” is the second of the numbers that belong to each point.
function valuesOf(trace, attribute) {
  const [, name, place] = /^(\w+)(?:\[(\d)\])?$/.exec(attribute);
  if (place) return trace[name].map((numbers) => numbers[place]);
  if (name !== "x" || trace.x) return trace[name] ?? [];
  const count = trace.y?.length ?? 0;
  return Array.from({ length: count }, (_, row) => trace.x0 + row * trace.dx);
}

// A trace says which of its numbers belong into the table, and under which names; what
// is only decoration says nothing.
function tableOf(trace) {
  const { columns = {}, labels = {} } = trace.meta ?? {};
  return { labels, columns };
}

// Plotly reads names as HTML, and so they are escaped.
function plainText(html) {
  return new DOMParser().parseFromString(html ?? "", "text/html").body.textContent;
}

function figureCsv(traces) {
  const header = [];
  for (const { labels, columns } of traces.map(tableOf)) {
    if (!Object.keys(columns).length) continue;
    for (const name of [...Object.keys(labels), ...Object.keys(columns)]) {
      if (!header.includes(name)) header.push(name);
    }
  }
  const rows = [];
  for (const trace of traces) {
    const { labels, columns } = tableOf(trace);
    const names = Object.keys(columns);
    const values = names.map((name) => valuesOf(trace, columns[name]));
    const count = Math.max(0, ...values.map((one) => one.length));
    for (let place = 0; place < count; place += 1) {
      const row = { ...labels };
      names.forEach((name, index) => (row[name] = values[index][place]));
      rows.push(header.map((name) => row[name]));
    }
  }
  return csvText(header, rows);
}

function recordsCsv(records) {
  const { columns, flags, runs } = records.header;
  const named = ["task", "method", "seed"];
  const rows = [];
  runs.forEach((run, index) => {
    const values = ["episode", ...columns].map((name) => {
      const numbers = records.column(index, name);
      return flags.includes(name) ? numbers.map(Boolean) : numbers;
    });
    for (let row = 0; row < values[0].length; row += 1) {
      rows.push([...named.map((name) => run[name]), ...values.map((one) => one[row])]);
    }
  });
  return csvText([...named, "episode", ...columns], rows);
}

function fileName(key) {
  const title = document.title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-");
  return `${title.slice(0, 60).replace(/^-|-$/g, "")}-${key}.csv`;
}
