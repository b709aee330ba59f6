//! What the guards in Rust know about shell commands: names of programs,
//! commands whose words do not say what they run, and a search of the text for
//! those. shell.h is the same in C and says more.
#![allow(dead_code)]

use crate::guardproxy::{ask, deny, get, number, PASS};

/// Looks for a name in a list of names that are parted by spaces.
pub fn among(name: &str, list: &str) -> bool {
    !name.is_empty() && list.split(' ').any(|n| n == name)
}

/// The name of a program in lower case, without directory and .exe.
pub fn base<'a>(word: &str, space: &'a mut [u8; 64]) -> &'a str {
    let bytes = word.as_bytes();
    let from = bytes.iter().rposition(|&c| c == b'/').map_or(0, |at| at + 1);
    let mut n = 0;
    for &c in bytes[from..].iter().take(space.len()) {
        space[n] = c.to_ascii_lowercase();
        n += 1;
    }
    // Cut within a character, it is no program's name.
    let name = core::str::from_utf8(&space[..n]).unwrap_or("");
    name.strip_suffix(".exe").unwrap_or(name)
}

/// The shell expands something in the word.
pub fn dynamic(word: &str) -> bool {
    word.contains('$') || word.contains('`') || word.starts_with("<(")
}

const SHELLS: &str = "sh bash rbash dash ash hush posh zsh ksh ksh93 rksh mksh lksh oksh yash";
const FOREIGNS: &str = "alias fish pwsh powershell nu elvish xonsh csh tcsh cmd xargs parallel ssh at batch watch tmux screen crontab nix-shell entr script hyperfine awk gawk mawk nawk vim vi nvim ex ed emacs make gmake gdb socat tar";
const INTERPRETERS: &str = "python python2 python3 perl ruby node nodejs bun deno php lua rscript osascript tclsh expect jshell groovy";

const SHELL: u8 = 1;
const INTERPRETER: u8 = 2;
const SOURCE: u8 = 4;
const FOREIGN: u8 = 8;
/// The bits of kinds that guards have for themselves.
pub const OWN: u8 = 16;

/// Names with a number each, found by their hash; a name may have several. It is
/// filled when the guard starts, which is once: calls begin with the memory of
/// a guard that was started.
pub struct Names<const SLOTS: usize> {
    filled: bool,
    slots: [Option<(&'static str, u8)>; SLOTS], // a chain of names ends with an empty one
}

impl<const SLOTS: usize> Names<SLOTS> {
    pub const EMPTY: Self = Names { filled: false, slots: [None; SLOTS] };

    /// Fills it, the first time.
    pub fn filled(&mut self, fill: impl FnOnce(&mut Self)) -> &Self {
        if !self.filled {
            self.filled = true;
            fill(self);
        }
        self
    }

    /// With as many names as slots no chain would end: the guard is stopped when
    /// it starts, or at its first name.
    pub fn add(&mut self, name: &'static str, number: u8) {
        let mut at = Self::hash(name);
        while self.slots[at].is_some() {
            at = (at + 1) % SLOTS;
        }
        self.slots[at] = Some((name, number));
    }

    /// The numbers of a name, in the order in which they were added.
    pub fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = u8> + 'a {
        let from = Self::hash(name);
        (from..).map_while(move |at| self.slots[at % SLOTS]).filter(move |slot| slot.0 == name).map(|slot| slot.1)
    }

    fn hash(name: &str) -> usize {
        name.bytes().fold(0u32, |h, c| h.wrapping_mul(31).wrapping_add(c as u32)) as usize % SLOTS
    }
}

static mut KINDS: Names<512> = Names::EMPTY;

/// What a program is: bits of the constants above, and OWN for the names that
/// own adds.
pub fn kinds(name: &str, own: impl FnOnce(&mut dyn FnMut(&'static str))) -> u8 {
    let known = unsafe { &mut KINDS }.filled(|names| {
        for (bit, list) in [(SHELL, SHELLS), (INTERPRETER, INTERPRETERS), (SOURCE, "source ."), (FOREIGN, FOREIGNS)] {
            list.split(' ').for_each(|name| names.add(name, bit));
        }
        own(&mut |name| names.add(name, OWN));
    });
    let bits = known.of(name).fold(0, |bits, bit| bits | bit);
    bits | if name.starts_with("python3.") { INTERPRETER } else { 0 }
}

/// What the command runs is not among the words. Kinds are its program's.
pub fn unseen(argv: &[&str], name: &str, kinds: u8) -> bool {
    let first = argv.get(1).copied().unwrap_or("");
    if name.contains(&['$', '`', ')', '}', '*', '?'][..]) || name.contains('[') && !among(name, "[ [[") {
        return true;
    }
    if kinds & SHELL != 0 {
        for w in &argv[1..] {
            match w.as_bytes() {
                [b'-', b'-', ..] => {}
                [b'-' | b'+', rest @ ..] if rest.contains(&b'c') => return false,
                [b'-' | b'+', rest @ ..] if rest.contains(&b's') => return true,
                [b'-' | b'+', ..] => {}
                _ => return dynamic(w) || w.starts_with("/dev/") || w.starts_with("/proc/"),
            }
        }
        return !among(first, "--version --help");
    }
    if kinds & INTERPRETER != 0 {
        for w in &argv[1..] {
            match w.as_bytes() {
                [b'-', b'm', ..] => return false,
                [b'-'] => return true,
                [b'-', b'-', ..] if among(w, "--version --help") => return false,
                [b'-', b'-', ..] if among(w, "--eval --print") => return true,
                [b'-', b'-', ..] => {}
                [b'-', ..] if among(w, "-V -v") => return false,
                // Code in the words.
                [b'-', rest @ ..] if rest.iter().any(|c| b"ceErp".contains(c)) => return true,
                [b'-', ..] => {}
                _ => return dynamic(w) || w.starts_with("/dev/") || *w == "eval",
            }
        }
        return true;
    }
    if kinds & SOURCE != 0 {
        return dynamic(first) || first.starts_with("/dev/");
    }
    argv.len() > 1 && (kinds & FOREIGN != 0 || name == "git" && argv[1].starts_with("-c"))
}

fn letter(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_'
}

fn gap(c: u8) -> bool {
    b" \t\r\n\\'\",[]()".contains(&c)
}

/// Looks for words in a text, as words and whatever their case, but for capitals
/// among the words, which are meant. A space stands for whatever parts words there, in quotes and lists too.
pub fn mentions(text: &str, words: &str) -> bool {
    let (bytes, first) = (text.as_bytes(), words.as_bytes()[0]);
    (0..bytes.len()).any(|i| bytes[i].to_ascii_lowercase() == first && spoken_at(bytes, i, words.as_bytes()))
}

/// Calls found with each of several, by its index, that is mentioned in a text,
/// once or more, until it returns true. It reads the text once.
pub fn mentions_each(text: &str, several: &[&str], mut found: impl FnMut(usize) -> bool) {
    let bytes = text.as_bytes();
    // Chains of those that begin with the same byte, by their index and one.
    let (mut first, mut next) = ([0u8; 256], [0u8; 128]);
    for (n, words) in several.iter().enumerate().rev() {
        let c = words.as_bytes()[0] as usize;
        next[n] = first[c];
        first[c] = n as u8 + 1;
    }
    for i in 0..bytes.len() {
        let mut n = first[bytes[i].to_ascii_lowercase() as usize];
        while n > 0 {
            let at = n as usize - 1;
            if spoken_at(bytes, i, several[at].as_bytes()) && found(at) {
                return;
            }
            n = next[at];
        }
    }
}

fn spoken_at(text: &[u8], mut i: usize, words: &[u8]) -> bool {
    let at = |i: usize| text.get(i).copied().unwrap_or(0);
    if i > 0 && letter(at(i - 1)) && (letter(at(i)) || at(i) == b'.') {
        return false;
    }
    for &w in words {
        if w == b' ' && gap(at(i)) {
            while gap(at(i)) {
                i += 1;
            }
        } else if at(i) == w || at(i).to_ascii_lowercase() == w {
            i += 1;
        } else {
            return false;
        }
    }
    !(letter(words[words.len() - 1]) && letter(at(i)))
}

/// The command as the model wrote it, or all arguments.
pub fn text() -> &'static str {
    static mut TEXT: [u8; 1 << 20] = [0; 1 << 20];
    for key in ["/command", "/cmd", "/script", "/code", ""] {
        if let Some(found) = get(&["/call/arguments", key], unsafe { &mut TEXT }) {
            return found;
        }
    }
    ""
}

/// What the operator wants for commands that the host can't read to the end.
#[derive(PartialEq, Clone, Copy)]
pub enum Opaque {
    Search,
    Pass,
    Ask,
    Deny,
}

/// Room for what is asked for and looked at at once: as large as a document, so
/// that everything fits.
pub fn room() -> &'static mut [u8] {
    static mut ROOM: [u8; 1 << 20] = [0; 1 << 20];
    unsafe { &mut ROOM }
}

pub fn opaque_setting() -> Option<Opaque> {
    Some(match get(&["/config/opaque"], room()) {
        None | Some("search") => Opaque::Search,
        Some("pass") => Opaque::Pass,
        Some("ask") => Opaque::Ask,
        Some("deny") => Opaque::Deny,
        _ => return None,
    })
}

/// The verdict on a command that can't be read to the end.
pub fn opaque_answer(opaque: bool) -> i32 {
    match opaque_setting() {
        Some(Opaque::Ask) if opaque => ask(&["this command cannot be read to the end: a part of it is decided only when it runs"]),
        Some(Opaque::Deny) if opaque => deny(&["this command cannot be read to the end: write it without variables, patterns and substitutions"]),
        _ => PASS,
    }
}

/// Holds the configuration to these names: each is a list of texts, but for
/// opaque. Every byte of it must be theirs.
pub fn only_settings(names: &[&str]) -> bool {
    let space = room();
    let (mut bytes, mut count) = (2, 0);
    for name in names {
        if let Some(value) = get(&["/config/", name], space) {
            let list = *name != "opaque";
            if list && !value.starts_with('[') {
                return false;
            }
            bytes += name.len() + 3 + value.len() + if list { 0 } else { 2 };
            count += 1;
        }
    }
    if count > 1 {
        bytes += count - 1;
    }
    get(&["/config"], space).map_or(false, |all| all.len() == bytes)
}

/// Looks for a text in a list of the configuration.
pub fn configured(name: &str, text: &str) -> bool {
    for i in 0.. {
        match get(&["/config/", name, "/", number(i, &mut [0; 10])], room()) {
            None => return false,
            Some(entry) if entry == text => return true,
            _ => {}
        }
    }
    false
}
