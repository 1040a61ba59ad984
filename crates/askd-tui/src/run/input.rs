//! Bytes of a terminal as keys. Whatever is not known is one key that means nothing; no part of it is taken for a letter.

use std::collections::VecDeque;
use std::time::Duration;

use crate::key::Key;

/// How long the rest of a sequence may take: a lone escape is the key of that name.
pub(super) const ESCAPE_WAIT: Duration = Duration::from_millis(50);
/// Longest paste that is kept.
const MOST_PASTE: usize = 256 * 1024;
const PASTE_END: &[u8] = b"\x1b[201~";

/// What was read and is not a key yet.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    held: Vec<u8>,
    pasting: bool,
    /// What is held was told as a key that means nothing: its rest belongs to it, however late it comes.
    cut: bool,
}

/// How much of the bytes a key takes.
enum Parsed {
    Key(Key, usize),
    /// A paste begins behind these.
    Paste(usize),
    /// A sequence whose rest is late.
    Cut,
    /// The rest of it has not come yet.
    More,
}

impl Bytes {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// Whether something waits for its rest.
    pub(super) fn is_waiting(&self) -> bool {
        !self.held.is_empty() && !self.cut || self.pasting
    }

    /// The keys that are whole; with `late` the rest of the last one is not waited for any more.
    pub(super) fn keys(&mut self, late: bool) -> Vec<Key> {
        let mut keys = Vec::new();
        loop {
            if self.pasting {
                let Some(text) = self.paste(late) else { break };
                keys.push(Key::Paste(text));
                continue;
            }
            if self.held.is_empty() {
                break;
            }
            match parse(&self.held, late) {
                Parsed::Key(key, len) => {
                    self.held.drain(..len);
                    if !std::mem::take(&mut self.cut) {
                        keys.push(key);
                    }
                }
                Parsed::Paste(len) => {
                    self.held.drain(..len);
                    (self.pasting, self.cut) = (true, false);
                }
                Parsed::Cut => {
                    if !std::mem::replace(&mut self.cut, true) {
                        keys.push(Key::Other);
                    }
                    break;
                }
                Parsed::More => break,
            }
        }
        keys
    }

    fn paste(&mut self, late: bool) -> Option<String> {
        let end = self.held.windows(PASTE_END.len()).position(|window| window == PASTE_END);
        let (len, behind) = match end {
            Some(end) => (end, end + PASTE_END.len()),
            None if late || self.held.len() > MOST_PASTE => (self.held.len(), self.held.len()),
            None => return None,
        };
        let text = String::from_utf8_lossy(&self.held[..len.min(MOST_PASTE)]).into_owned();
        self.held.drain(..behind);
        // One that is too long goes on: what is left of it is no typing either.
        self.pasting = end.is_none() && !late;
        Some(text)
    }
}

fn parse(bytes: &[u8], late: bool) -> Parsed {
    let first = bytes[0];
    match first {
        0x1b => escape(bytes, late),
        b'\r' | b'\n' => Parsed::Key(Key::Enter, 1),
        b'\t' => Parsed::Key(Key::Tab, 1),
        0x7f | 0x08 => Parsed::Key(Key::Backspace, 1),
        0x01..=0x1a => Parsed::Key(Key::Ctrl(char::from(first - 1 + b'a')), 1),
        0x00..=0x1f => Parsed::Key(Key::Other, 1),
        _ => character(bytes, late),
    }
}

fn character(bytes: &[u8], late: bool) -> Parsed {
    let len = match bytes[0] {
        0x00..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Parsed::Key(Key::Other, 1),
    };
    match bytes.get(..len) {
        Some(whole) => match std::str::from_utf8(whole).ok().and_then(|text| text.chars().next()) {
            Some(c) if !c.is_control() => Parsed::Key(Key::Char(c), len),
            Some(_) => Parsed::Key(Key::Other, len),
            None => Parsed::Key(Key::Other, 1),
        },
        None if late => Parsed::Key(Key::Other, bytes.len()),
        None => Parsed::More,
    }
}

fn escape(bytes: &[u8], late: bool) -> Parsed {
    match bytes.get(1) {
        None if late => Parsed::Key(Key::Esc, 1),
        None => Parsed::More,
        Some(0x1b) => Parsed::Key(Key::Esc, 1),
        Some(b'[') => control_sequence(bytes, late),
        Some(b'O') => match bytes.get(2) {
            // Enter of the number pad, which is told so and in no other way.
            Some(b'M') => Parsed::Key(Key::Enter, 3),
            Some(last) => Parsed::Key(cursor_key(*last).unwrap_or(Key::Other), 3),
            None if late => Parsed::Key(Key::Other, 2),
            None => Parsed::More,
        },
        // Replies of a terminal: up to their end.
        Some(b']' | b'P' | b'_' | b'^' | b'X') => {
            let end = bytes.iter().skip(2).position(|byte| *byte == 0x07).map(|at| at + 3);
            let long_end = bytes.windows(2).skip(2).position(|two| two == b"\x1b\\").map(|at| at + 4);
            match end.into_iter().chain(long_end).min() {
                Some(end) => Parsed::Key(Key::Other, end),
                None if late => Parsed::Key(Key::Other, bytes.len()),
                None => Parsed::More,
            }
        }
        // A key with Alt held down.
        Some(_) => match parse(&bytes[1..], late) {
            Parsed::Key(_, len) => Parsed::Key(Key::Other, len + 1),
            Parsed::Paste(_) | Parsed::Cut | Parsed::More => Parsed::More,
        },
    }
}

fn control_sequence(bytes: &[u8], late: bool) -> Parsed {
    // Function keys of a Linux console.
    if bytes.get(2) == Some(&b'[') {
        return match bytes.len() {
            3 if !late => Parsed::More,
            len => Parsed::Key(Key::Other, len.min(4)),
        };
    }
    let end = bytes.iter().skip(2).position(|byte| !(0x20..=0x3f).contains(byte)).map(|at| at + 2);
    let Some(end) = end else {
        return if late { Parsed::Cut } else { Parsed::More };
    };
    let len = end + 1;
    match (&bytes[2..end], bytes[end]) {
        (b"200", b'~') => Parsed::Paste(len),
        // The mouse, as a program that died may have left it: what was clicked, and where, as bare bytes.
        (b"", b'M') => mouse(bytes, len, 3, late),
        (b"", b't') => mouse(bytes, len, 2, late),
        (b"", b'T') => mouse(bytes, len, 6, late),
        (b"" | b"1", last) if cursor_key(last).is_some() => {
            Parsed::Key(cursor_key(last).unwrap_or(Key::Other), len)
        }
        (b"1" | b"7", b'~') => Parsed::Key(Key::Home, len),
        (b"4" | b"8", b'~') => Parsed::Key(Key::End, len),
        (b"3", b'~') => Parsed::Key(Key::Delete, len),
        (b"5", b'~') => Parsed::Key(Key::PageUp, len),
        (b"6", b'~') => Parsed::Key(Key::PageDown, len),
        (_, 0x40..=0x7e) => Parsed::Key(Key::Other, len),
        // Cut off by something that cannot be part of it.
        _ => Parsed::Key(Key::Other, end),
    }
}

fn cursor_key(last: u8) -> Option<Key> {
    Some(match last {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        _ => return None,
    })
}

/// So many numbers behind the first `len` bytes, each one byte, or one character of two: both are in use.
fn mouse(bytes: &[u8], len: usize, numbers: usize, late: bool) -> Parsed {
    let mut end = len;
    for _ in 0..numbers {
        let two = matches!(bytes.get(end..end + 2), Some([0xc2..=0xdf, 0x80..=0xbf]));
        end += match bytes.get(end) {
            Some(0x1b) => return Parsed::Key(Key::Other, end),
            // The second byte of a character may still be to come.
            Some(0xc2..=0xdf) if end + 1 == bytes.len() && !late => return Parsed::More,
            Some(_) if two => 2,
            Some(_) => 1,
            None if late => return Parsed::Cut,
            None => return Parsed::More,
        };
    }
    Parsed::Key(Key::Other, end)
}

/// Keys that came in one go and read like text: a paste into a terminal that does not say so. Nobody types four letters
/// at once; a line that is begun with its own key is taken as typed.
pub(super) fn looks_pasted(keys: &[Key]) -> bool {
    let letters: Vec<char> =
        keys.iter().filter_map(|key| if let Key::Char(c) = key { Some(*c) } else { None }).collect();
    let mut distinct = letters.clone();
    distinct.sort_unstable();
    distinct.dedup();
    letters.len() >= 4 && distinct.len() >= 3 && !matches!(keys.first(), Some(Key::Char('/' | 'm')))
}

/// Whether what was read together with the end of a line is more text: several lines were pasted.
pub(super) fn goes_on(behind: &VecDeque<Key>) -> bool {
    let has_text = behind.iter().any(|key| matches!(key, Key::Char(_)));
    let letters: Vec<Key> = behind.iter().skip_while(|key| **key == Key::Char('/')).cloned().collect();
    has_text && (behind.contains(&Key::Enter) || looks_pasted(&letters))
}

/// Keys as the text that they were before.
pub(super) fn text(keys: impl Iterator<Item = Key>) -> String {
    let mut text = String::new();
    for key in keys {
        match key {
            Key::Char(c) => text.push(c),
            Key::Enter => text.push('\n'),
            Key::Tab => text.push('\t'),
            Key::Paste(pasted) => text.push_str(&pasted),
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut input = Bytes::default();
        input.push(bytes);
        let mut keys = input.keys(false);
        keys.extend(input.keys(true));
        keys
    }

    #[test]
    fn keys_are_known_in_the_forms_that_terminals_send() {
        use Key::{Char, Ctrl, Down, End, Enter, Esc, Home, Left, Other, PageDown, PageUp, Right, Up};
        let cases: &[(&[u8], &[Key])] = &[
            (b"yn\r", &[Char('y'), Char('n'), Enter]),
            (b"\x1b[A\x1b[B\x1b[C\x1b[D", &[Up, Down, Right, Left]),
            (b"\x1bOA\x1bOB\x1bOF", &[Up, Down, End]),
            (b"\x1b[H\x1b[1~\x1b[7~\x1b[F\x1b[4~", &[Home, Home, Home, End, End]),
            (b"\x1b[5~\x1b[6~\x1b[3~", &[PageUp, PageDown, Key::Delete]),
            (b"\x1b", &[Esc]),
            (b"\x1b\x1b[A", &[Esc, Up]),
            (b"\x03\x7f\t", &[Ctrl('c'), Key::Backspace, Key::Tab]),
            ("ä漢".as_bytes(), &[Char('ä'), Char('漢')]),
            // Alt, modified and function keys, replies of the terminal, focus events.
            (b"\x1by", &[Other]),
            (b"\x1b[1;5A\x1b[1;2y", &[Other, Other]),
            (b"\x1b[11~\x1bOP\x1b[[A", &[Other, Other, Other]),
            (b"\x1b]11;rgb:y/n/y\x07\x1bP>|y\x1b\\n", &[Other, Other, Char('n')]),
            (b"\x1b[I\x1b[?62;22c", &[Other, Other]),
            (b"\xff\xc3(", &[Other, Other, Char('(')]),
            (b"\x1bOM\x1b[1M", &[Enter, Other]),
            // A mouse, in each of the forms that there are.
            (b"\x1b[M n!\x1b[M#n!y", &[Other, Other, Char('y')]),
            (b"\x1b[M \xc2\x80n\x1b[M \xf0\xf1y", &[Other, Other, Char('y')]),
            (b"\x1b[<0;78;1M\x1b[<0;78;1m\x1b[32;78;1M", &[Other, Other, Other]),
            (b"\x1b[tn!\x1b[Tnnnnnnq", &[Other, Other, Char('q')]),
            (b"\x1b[M n\x1b[A", &[Other, Up]),
            ("\u{9b}".as_bytes(), &[Other]),
        ];
        for (bytes, wanted) in cases {
            assert_eq!(keys(bytes), *wanted, "{bytes:?}");
        }
    }

    #[test]
    fn s4_a_sequence_that_comes_in_pieces_is_no_letter() {
        let mut input = Bytes::default();
        let mut got = Vec::new();
        for byte in b"\x1b[A\x1bOB\xe6\xbc\xa2\x1b[1;2A" {
            input.push(&[*byte]);
            got.extend(input.keys(false));
        }
        assert_eq!(got, [Key::Up, Key::Down, Key::Char('漢'), Key::Other]);
        assert!(!input.is_waiting());
    }

    #[test]
    fn s4_no_part_of_a_click_is_a_letter_however_late_it_comes() {
        for cut in 1..6 {
            let click = b"\x1b[M ny";
            let mut input = Bytes::default();
            input.push(&click[..cut]);
            let mut got = input.keys(false);
            // The rest is not waited for.
            got.extend(input.keys(true));
            assert!(!input.is_waiting(), "{cut}");
            input.push(&click[cut..]);
            got.extend(input.keys(false));
            // An escape alone is a key of its own.
            if cut > 1 {
                assert_eq!(got, [Key::Other], "{cut}");
            }
            input.push(b"n");
            assert_eq!(input.keys(false), [Key::Char('n')], "{cut}");
        }
    }

    #[test]
    fn s4_pasted_text_is_one_thing_whatever_is_in_it() {
        let pasted = b"\x1b[200~y\rn\x1b[Aallow all\x1b[201~q";
        assert_eq!(keys(pasted), [Key::Paste("y\rn\u{1b}[Aallow all".into()), Key::Char('q')]);
        let mut input = Bytes::default();
        let mut got = Vec::new();
        for byte in pasted {
            input.push(&[*byte]);
            got.extend(input.keys(false));
        }
        assert_eq!(got, keys(pasted));
        // One without an end is text too, for as long as it goes on.
        assert_eq!(keys(b"\x1b[200~yyyy"), [Key::Paste("yyyy".into())]);
        let mut input = Bytes::default();
        input.push(b"\x1b[200~");
        input.push(&vec![b'y'; MOST_PASTE + 10]);
        assert!(matches!(input.keys(false).as_slice(), [Key::Paste(_)]));
        input.push(b"yn\x1b[201~n");
        assert_eq!(input.keys(false), [Key::Paste("yn".into()), Key::Char('n')]);
    }

    #[test]
    fn text_in_one_go_is_taken_for_a_paste() {
        let all = |text: &str| text.chars().map(Key::Char).collect::<Vec<_>>();
        assert!(looks_pasted(&all("no way, not now")));
        assert!(looks_pasted(&all("days")));
        for typed in ["y", "nn", "nnnnnn", "yny", "/permissions", "mnot this folder"] {
            assert!(!looks_pasted(&all(typed)), "{typed}");
        }
    }

    #[test]
    fn several_lines_in_one_go_are_known() {
        let all = |text: &str| {
            let key = |c| if c == '\n' { Key::Enter } else { Key::Char(c) };
            text.chars().map(key).collect::<VecDeque<_>>()
        };
        for behind in ["see above", "/quit", "a\nb", "q\n", "more text\n"] {
            assert!(goes_on(&all(behind)), "{behind:?}");
        }
        for behind in ["", "\n", "n", "nn", "q"] {
            assert!(!goes_on(&all(behind)), "{behind:?}");
        }
        assert_eq!(text(all("a\nb").into_iter().chain([Key::Up, Key::Paste("c".into())])), "a\nbc");
    }

    proptest! {
        #[test]
        fn s7_any_bytes_become_keys_and_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut input = Bytes::default();
            let mut count = 0;
            for piece in bytes.chunks(7) {
                input.push(piece);
                count += input.keys(false).len();
            }
            count += input.keys(true).len();
            prop_assert!(count <= bytes.len() + 1);
            prop_assert!(!input.is_waiting() || input.keys(true).len() <= 1);
        }
    }
}
