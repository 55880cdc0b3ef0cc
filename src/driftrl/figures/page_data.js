// Data lies in the page once, as base64 of what gzip made of it.  Reading it needs no
// request: the bytes are those of an element.
function inflated(id) {
  const letters = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(letters.length);
  for (let place = 0; place < bytes.length; place += 1) bytes[place] = letters.charCodeAt(place);
  return new Inflating(bytes).whole();
}

function readPageData() {
  return JSON.parse(new TextDecoder().decode(inflated("page-data")));
}

// The records of one part of the page: columns of numbers, run after run.
class Records {
  constructor(header, buffer) {
    this.header = header;
    this.numbers =
      header.width === 8 ? new Float64Array(buffer) : new Float32Array(buffer);
    this.starts = [0];
    for (const rows of header.rows) this.starts.push(this.starts.at(-1) + rows);
  }

  static read(part, header) {
    return new Records(header, inflated(`records-${part}`).buffer);
  }

  // Every k-th episode is here, and the last of the run is one of them.
  first(run) {
    return ((this.header.runs[run].episodes - 1) % this.header.every) + 1;
  }

  column(run, name) {
    const rows = this.header.rows[run];
    if (name === "episode") {
      const first = this.first(run);
      return Array.from({ length: rows }, (_, row) => first + row * this.header.every);
    }
    if (name === "span") {
      const retained = this.column(run, "first_retained");
      return this.column(run, "episode").map((episode, row) => episode - retained[row]);
    }
    const place = this.header.columns.indexOf(name) * this.starts.at(-1);
    const start = place + this.starts[run];
    return Array.from(this.numbers.subarray(start, start + rows), (value) =>
      this.header.width === 8 ? value : Number(value.toPrecision(5)),
    );
  }
}
