// What gzip made of bytes, undone at once (RFC 1951): the browser's own way to do it
// answers later, and a page that is printed as soon as it is there cannot wait for that.
const LENGTH_BITS = [0, 0, 1, 2, 3, 4, 5].flatMap((bits) => Array(4).fill(bits));
const DISTANCE_BITS = [0, 0, ...Array.from({ length: 28 }, (_, place) => place >> 1)];
// The least length and distance of each symbol: where those of the symbol before end.
const leasts = (bits, first) =>
  bits.map((_, place) => bits.slice(0, place).reduce((sum, one) => sum + 2 ** one, first));
const LENGTHS = leasts(LENGTH_BITS, 3);
const DISTANCES = leasts(DISTANCE_BITS, 1);
// The longest copy has a symbol of its own.
LENGTH_BITS.push(0);
LENGTHS.push(258);
const CODE_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const [HEADER_BYTES, STORED, FIXED, END] = [10, 0, 1, 256];

// For every word of as many bits as the longest code has: the symbol whose code begins
// there, and below it, in four bits, the length of the code.
function codeTable(lengths) {
  const next = new Uint16Array(17);
  for (const bits of lengths) if (bits) next[bits + 1] += 1;
  for (let bits = 1; bits < 17; bits += 1) next[bits] = (next[bits] + next[bits - 1]) << 1;
  const width = Math.max(1, ...lengths);
  const words = new Uint16Array(1 << width);
  lengths.forEach((bits, symbol) => {
    if (!bits) return;
    let [code, reversed] = [next[bits], 0];
    next[bits] += 1;
    for (let bit = 0; bit < bits; bit += 1, code >>= 1) reversed = (reversed << 1) | (code & 1);
    for (let word = reversed; word < words.length; word += 1 << bits) {
      words[word] = (symbol << 4) | bits;
    }
  });
  return { width, words };
}

class Inflating {
  constructor(bytes) {
    Object.assign(this, { bytes, place: HEADER_BYTES, held: 0, count: 0, length: 0 });
    // The last four bytes say how many there were.
    this.result = new Uint8Array(new DataView(bytes.buffer).getUint32(bytes.length - 4, true));
  }

  whole() {
    for (let isLast = 0; !isLast; ) {
      isLast = this.take(1);
      const kind = this.take(2);
      if (kind === STORED) this.copyStored();
      else this.decode(...(kind === FIXED ? fixedTables() : this.readTables()));
    }
    return this.result;
  }

  hold(bits) {
    for (; this.count < bits; this.count += 8) {
      this.held |= this.bytes[this.place] << this.count;
      this.place += 1;
    }
  }

  take(bits) {
    this.hold(bits);
    const value = this.held & ((1 << bits) - 1);
    this.held >>>= bits;
    this.count -= bits;
    return value;
  }

  symbol({ width, words }) {
    this.hold(width);
    const word = words[this.held & ((1 << width) - 1)];
    this.held >>>= word & 15;
    this.count -= word & 15;
    return word >> 4;
  }

  copyStored() {
    // To the next whole byte; what was held beyond it was not taken yet.
    this.take(this.count % 8);
    this.place -= this.count / 8;
    [this.held, this.count] = [0, 0];
    const size = this.bytes[this.place] | (this.bytes[this.place + 1] << 8);
    this.place += 4;
    this.result.set(this.bytes.subarray(this.place, this.place + size), this.length);
    this.place += size;
    this.length += size;
  }

  readTables() {
    const [literals, distances, codes] = [this.take(5) + 257, this.take(5) + 1, this.take(4) + 4];
    const short = Array(19).fill(0);
    for (const place of CODE_ORDER.slice(0, codes)) short[place] = this.take(3);
    const table = codeTable(short);
    const lengths = [];
    while (lengths.length < literals + distances) {
      const symbol = this.symbol(table);
      if (symbol < 16) lengths.push(symbol);
      else if (symbol === 16) lengths.push(...Array(3 + this.take(2)).fill(lengths.at(-1)));
      else lengths.push(...Array(symbol === 17 ? 3 + this.take(3) : 11 + this.take(7)).fill(0));
    }
    return [codeTable(lengths.slice(0, literals)), codeTable(lengths.slice(literals))];
  }

  decode(literals, distances) {
    const { result } = this;
    for (let symbol = this.symbol(literals); symbol !== END; symbol = this.symbol(literals)) {
      if (symbol < END) {
        result[this.length] = symbol;
        this.length += 1;
        continue;
      }
      const size = LENGTHS[symbol - 257] + this.take(LENGTH_BITS[symbol - 257]);
      const far = this.symbol(distances);
      const from = this.length - DISTANCES[far] - this.take(DISTANCE_BITS[far]);
      // One by one: a copy may reach into itself.
      const end = this.length + size;
      for (let place = from; this.length < end; place += 1, this.length += 1) {
        result[this.length] = result[place];
      }
    }
  }
}

function fixedTables() {
  const [low, middle] = [Array(144).fill(8), Array(112).fill(9)];
  const lengths = [...low, ...middle, ...Array(24).fill(7), ...Array(8).fill(8)];
  return [codeTable(lengths), codeTable(Array(30).fill(5))];
}
