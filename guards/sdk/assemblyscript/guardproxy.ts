// What a guard in AssemblyScript includes: the three functions of guard/1 and
// the words of a shell command. README.md has an example and the command that
// builds it.
//
// What is not as the host writes it traps, which denies the call. The host
// gives every call a memory of its own.

@external("guardproxy", "get") declare function hostGet(pointer: usize, length: i32, to: usize, capacity: i32): i32;
@external("guardproxy", "reason") declare function hostReason(text: usize, length: i32): void;
@external("guardproxy", "note") declare function hostNote(text: usize, length: i32): void;

export const PASS: i32 = 1;
const DENY: i32 = 2;
const ASK: i32 = 3;

/** Gives the reason and returns the verdict to deny. The model is shown at
 * most 300 characters: say what would be accepted. */
export function deny(why: string): i32 { return verdict(DENY, why); }

/** Gives the reason and returns the verdict to ask an approver. */
export function ask(why: string): i32 { return verdict(ASK, why); }

function verdict(verdict: i32, why: string): i32 {
  const text = String.UTF8.encode(why);
  hostReason(changetype<usize>(text), text.byteLength);
  return verdict;
}

/** Writes a line for the audit log. */
export function note(line: string): void {
  const text = String.UTF8.encode(line);
  hostNote(changetype<usize>(text), text.byteLength);
}

/** Looks up a JSON Pointer (RFC 6901) in the input document: a string comes
 * decoded, anything else as compact JSON; null if there is none. */
export function get(pointer: string): string | null {
  const value = bytes(pointer);
  return value === null ? null : String.UTF8.decode(value);
}

function bytes(pointer: string): ArrayBuffer | null {
  const path = String.UTF8.encode(pointer);
  const n = hostGet(changetype<usize>(path), path.byteLength, 0, 0);
  if (n < 0) return null;
  const value = new ArrayBuffer(n);
  hostGet(changetype<usize>(path), path.byteLength, changetype<usize>(value), n);
  return value;
}

/** Goes through the simple commands of /call/shell/argv. */
export class Commands {
  private text: usize = 0;
  private at: usize = 0;
  private end: usize = 0;

  constructor() {
    const argv = bytes("/call/shell/argv");
    if (argv !== null) {
      this.text = changetype<usize>(argv);
      this.at = this.text + 1;
      this.end = this.text + argv.byteLength;
    }
  }

  /** The words of the next command, or null after the last one. */
  next(): string[] | null {
    if (this.at < this.end && load<u8>(this.at) == 0x2c) this.at++; // ,
    if (this.at >= this.end || load<u8>(this.at) != 0x5b) return null; // [
    const words: string[] = [];
    while (this.byte() != 0x5d) { // ]
      if (load<u8>(this.at) == 0x2c) this.at++;
      words.push(this.word());
      this.at--;
    }
    this.at++;
    return words;
  }

  private byte(): u8 {
    assert(++this.at < this.end);
    return load<u8>(this.at);
  }

  // The string at `at`, decoded in place; then `at` is behind it.
  private word(): string {
    assert(load<u8>(this.at) == 0x22); // "
    const from = this.at + 1;
    let to = from;
    for (let c = this.byte(); c != 0x22; c = this.byte()) {
      if (c == 0x5c) { // a backslash
        c = this.byte();
        if (c == 0x6e) c = 0x0a;
        else if (c == 0x72) c = 0x0d;
        else if (c == 0x74) c = 0x09;
        else if (c == 0x75) { // \u00XX, a control character
          this.at += 4;
          const low = load<u8>(this.at);
          c = (load<u8>(this.at - 1) & 1) << 4 | (low & 15) + (low >= 0x61 ? 9 : 0);
        }
      }
      store<u8>(to++, c);
    }
    this.at++;
    return String.UTF8.decodeUnsafe(from, to - from);
  }
}
