//! What a guard in Rust includes (`mod guardproxy;`): the three functions of
//! guard/1 and the words of a shell command. No std, no allocator, no
//! crate; README.md has an example and the command that builds it.
//!
//! What does not fit or is not as the host writes it panics, which denies the
//! call. The host gives every call a memory of its own and one thread.
#![allow(dead_code)]
use core::mem::MaybeUninit;

#[link(wasm_import_module = "guardproxy")]
extern "C" {
    #[link_name = "get"]
    fn host_get(pointer: *const u8, length: usize, to: *mut u8, capacity: usize) -> i32;
    #[link_name = "reason"]
    fn host_reason(text: *const u8, length: usize);
    #[link_name = "note"]
    fn host_note(text: *const u8, length: usize);
}

pub const PASS: i32 = 1;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    core::arch::wasm32::unreachable()
}

/// Gives the reason, put together of pieces, and returns the verdict to deny.
/// The model is shown at most 300 characters: say what would be accepted.
pub fn deny(pieces: &[&str]) -> i32 {
    verdict(2, pieces)
}

/// Gives the reason and returns the verdict to ask an approver.
pub fn ask(pieces: &[&str]) -> i32 {
    verdict(3, pieces)
}

fn verdict(verdict: i32, pieces: &[&str]) -> i32 {
    let mut space = [0; 1024];
    let text = join(&mut space, pieces);
    unsafe { host_reason(text.as_ptr(), text.len()) };
    verdict
}

/// Writes a line for the audit log.
pub fn note(text: &str) {
    unsafe { host_note(text.as_ptr(), text.len()) }
}

/// Writes pieces one after another; those that do not fit are left out.
pub fn join<'a>(space: &'a mut [u8], pieces: &[&str]) -> &'a str {
    let mut n = 0;
    for piece in pieces {
        if let Some(to) = space.get_mut(n..n + piece.len()) {
            to.copy_from_slice(piece.as_bytes());
            n += piece.len();
        }
    }
    unsafe { core::str::from_utf8_unchecked(&space[..n]) }
}

/// The number i, for a pointer to an element: `get(&["/call/paths/", number(2,
/// &mut [0; 10]), "/path"], space)`.
pub fn number(mut i: usize, digits: &mut [u8; 10]) -> &str {
    let mut at = digits.len();
    while at == digits.len() || i > 0 {
        at -= 1;
        digits[at] = b'0' + (i % 10) as u8;
        i /= 10;
    }
    unsafe { core::str::from_utf8_unchecked(&digits[at..]) }
}

/// Looks up a JSON Pointer (RFC 6901), given in pieces, in the input document:
/// a string comes decoded, anything else as compact JSON.
pub fn get<'a>(pointer: &[&str], space: &'a mut [u8]) -> Option<&'a str> {
    let mut buffer = [0; 256];
    let pointer = if let [whole] = pointer { whole } else { join(&mut buffer, pointer) };
    let n = unsafe { host_get(pointer.as_ptr(), pointer.len(), space.as_mut_ptr(), space.len()) };
    (n >= 0).then(|| unsafe { core::str::from_utf8_unchecked(&space[..n as usize]) })
}

/// Goes through the simple commands of /call/shell/argv: each gets its words,
/// and returns Some to end the walk with it.
pub fn commands<T>(mut each: impl FnMut(&[&'static str]) -> Option<T>) -> Option<T> {
    static mut TEXT: [u8; 1 << 20] = [0; 1 << 20]; // the host's limit of input
    static mut WORDS: [MaybeUninit<&str>; 1 << 17] = [MaybeUninit::uninit(); 1 << 17]; // and of words in a script
    let (text, words) = unsafe { (&mut TEXT, &mut WORDS) };
    let (end, mut at, mut count) = (get(&["/call/shell/argv"], text)?.len(), 1, 0);
    while at < end {
        at += 1;
        match text[at - 1] {
            b'[' => count = 0,
            b']' if at < end => {
                if let found @ Some(_) = each(unsafe { &*(&words[..count] as *const _ as *const [&str]) }) {
                    return found;
                }
            }
            b',' | b']' => {}
            b'"' => {
                let from = at;
                let mut to = at;
                while text[at] != b'"' {
                    let mut c = text[at];
                    if c == b'\\' {
                        at += 1;
                        c = match text[at] {
                            b'n' => b'\n',
                            b'r' => b'\r',
                            b't' => b'\t',
                            b'u' => { at += 4; (text[at - 1] & 1) << 4 | (text[at] & 15) + text[at] / b'a' * 9 } // \u00XX
                            c => c,
                        };
                    }
                    text[to] = c;
                    to += 1;
                    at += 1;
                }
                at += 1;
                words[count] = MaybeUninit::new(unsafe { core::str::from_utf8_unchecked(&*(&text[from..to] as *const [u8])) });
                count += 1;
            }
            _ => panic!(),
        }
    }
    None
}
