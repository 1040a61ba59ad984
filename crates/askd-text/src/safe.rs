//! The one function that marks foreign text.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::chars::{Class, belongs, class};

/// How many combining characters one letter may carry unmarked; pointed Hebrew needs four.
const MAX_COMBINING: usize = 4;
/// From how many equal marks in a row a count stands for them.
const MARKS_AS_COUNT: usize = 4;
/// From how many spaces or tabs in a row, inside a line, a count stands for them.
const BLANKS_AS_COUNT: usize = 16;
/// How many spaces at the start of a line are still taken for indentation.
const MAX_INDENT: usize = 32;
/// From how many empty lines in a row one line with a count stands for them.
const EMPTY_LINES_AS_COUNT: usize = 4;

/// One line of text that is safe to show.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct SafeText {
    /// The text with every mark in it; no control character, not even a line break.
    pub text: String,
    /// Whether anything was replaced. When false, `text` is the input, character for character.
    pub marked: bool,
}

/// Several lines of text that are safe to show.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct SafeLines {
    /// The lines, without their line breaks; never empty (an empty text is one empty line).
    pub lines: Vec<String>,
    /// Whether anything was replaced. When false, the lines joined by `\n` are the input, character for character.
    pub marked: bool,
}

/// Marks `text` for a single line: line breaks become `↵`.
///
/// Different inputs never give the same text: the marks can be read back.
pub fn safe(text: &str) -> SafeText {
    let mut out = Marker::with_capacity(text.len());
    out.line(text);
    SafeText { text: out.text, marked: out.marked }
}

/// Marks `text` and splits it at `\n`, and at nothing else: a carriage return, a form feed or a Unicode line
/// separator is marked inside its line.
pub fn safe_lines(text: &str) -> SafeLines {
    let mut lines = Vec::new();
    let mut marked = false;
    let mut empty = 0;
    for line in text.split('\n') {
        if line.is_empty() {
            empty += 1;
            continue;
        }
        marked |= push_empty_lines(&mut lines, empty);
        empty = 0;
        let line = safe(line);
        marked |= line.marked;
        lines.push(line.text);
    }
    marked |= push_empty_lines(&mut lines, empty);
    SafeLines { lines, marked }
}

fn push_empty_lines(lines: &mut Vec<String>, count: usize) -> bool {
    if count < EMPTY_LINES_AS_COUNT {
        lines.extend(std::iter::repeat_n(String::new(), count));
        return false;
    }
    lines.push(format!("\\u{{{count} empty lines}}"));
    true
}

struct Marker {
    text: String,
    marked: bool,
    /// How many more combining characters the letter just written may carry.
    room: usize,
    /// That letter, and what was written last.
    letter: char,
    last: char,
}

impl Marker {
    fn with_capacity(bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), marked: false, room: 0, letter: ' ', last: ' ' }
    }

    fn line(&mut self, line: &str) {
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            let at_start = rest.len() == line.len();
            let after = rest.trim_start_matches(c);
            let count = (rest.len() - after.len()) / c.len_utf8();
            self.run(c, count, at_start, after);
            rest = after;
        }
    }

    /// Writes `count` times `c`; `after` is what follows them in the line.
    fn run(&mut self, c: char, count: usize, at_start: bool, after: &str) {
        match c {
            ' ' => self.spaces(count, at_start, after.is_empty()),
            '\t' => self.named(count, '⇥', BLANKS_AS_COUNT, "tabs"),
            '\n' => self.named(count, '↵', MARKS_AS_COUNT, "newlines"),
            // The two signs above and the start of a mark must not be forged.
            '⇥' | '↵' => self.marks(c, count),
            '\\' if after.starts_with("u{") => {
                self.verbatim(c, count - 1);
                self.marks(c, 1);
            }
            _ => match class(c) {
                Class::Plain => {
                    self.verbatim(c, count);
                    // On a blank or a punctuation character an accent makes another character of it.
                    self.room = if c.is_alphanumeric() { MAX_COMBINING } else { 0 };
                    (self.letter, self.last) = (c, c);
                }
                Class::Combining => {
                    let mut kept = 0;
                    while kept < count.min(self.room) && belongs(c, self.letter, self.last) {
                        self.last = c;
                        kept += 1;
                    }
                    self.verbatim(c, kept);
                    if kept < count {
                        self.marks(c, count - kept);
                    } else {
                        self.room -= kept;
                    }
                }
                Class::Hidden => self.marks(c, count),
            },
        }
    }

    fn verbatim(&mut self, c: char, count: usize) {
        self.text.extend(std::iter::repeat_n(c, count));
    }

    fn spaces(&mut self, count: usize, at_start: bool, at_end: bool) {
        self.room = 0;
        let long = if at_start { count > MAX_INDENT } else { count >= BLANKS_AS_COUNT };
        if at_end && count == 1 {
            self.marks(' ', 1);
        } else if at_end || long {
            self.marked = true;
            // Writing to a String cannot fail.
            let _ = write!(self.text, "\\u{{{count} spaces}}");
        } else {
            self.verbatim(' ', count);
        }
    }

    /// Characters that are common enough to have a sign of their own.
    fn named(&mut self, count: usize, sign: char, as_count: usize, name: &str) {
        self.room = 0;
        self.marked = true;
        if count < as_count {
            self.verbatim(sign, count);
        } else {
            let _ = write!(self.text, "\\u{{{count} {name}}}");
        }
    }

    fn marks(&mut self, c: char, count: usize) {
        self.room = 0;
        self.marked = true;
        let code = u32::from(c);
        if count < MARKS_AS_COUNT {
            for _ in 0..count {
                let _ = write!(self.text, "\\u{{{code:x}}}");
            }
        } else {
            let _ = write!(self.text, "\\u{{{count} × {code:x}}}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str) -> String {
        let safe = safe(text);
        assert!(safe.marked, "{text:?} is not marked");
        safe.text
    }

    fn unmarked(text: &str) {
        assert_eq!(safe(text), SafeText { text: text.into(), marked: false });
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        for text in [
            "",
            "ls -l /tmp/näh 'ein zwei'",
            "git commit -m \"fix: don't\"",
            "日本語 한국어 ไทย עברית नमस्ते",
            "e\u{301}te\u{301}",
            "    indented",
            "a  b   c",
            "printf '\\u0041 \\x1b'",
        ] {
            unmarked(text);
        }
    }

    #[test]
    fn s4_controls_and_invisible_characters_are_named() {
        assert_eq!(marked("a\u{1b}[2Kb"), "a\\u{1b}[2Kb");
        assert_eq!(marked("a\u{9b}2Kb"), "a\\u{9b}2Kb");
        assert_eq!(marked("a\rb\0\u{7f}"), "a\\u{d}b\\u{0}\\u{7f}");
        assert_eq!(marked("\u{202e}gpj.exe"), "\\u{202e}gpj.exe");
        assert_eq!(marked("r\u{200b}m"), "r\\u{200b}m");
        assert_eq!(marked("a\u{a0}b\u{3000}c"), "a\\u{a0}b\\u{3000}c");
        assert_eq!(marked("❤\u{fe0f}"), "❤\\u{fe0f}");
        assert_eq!(marked("x\u{e0041}"), "x\\u{e0041}");
    }

    #[test]
    fn s4_runs_are_counted() {
        assert_eq!(marked(&format!("ls{}; rm x", " ".repeat(37))), "ls\\u{37 spaces}; rm x");
        assert_eq!(marked(&"\u{200b}".repeat(5)), "\\u{5 × 200b}");
        assert_eq!(marked("a\n\n\nb"), "a↵↵↵b");
        assert_eq!(marked("a\n\n\n\nb"), "a\\u{4 newlines}b");
        assert_eq!(marked(&format!("a{}b", "\t".repeat(20))), "a\\u{20 tabs}b");
        assert_eq!(marked("\t\tx"), "⇥⇥x");
    }

    #[test]
    fn s4_spaces_at_the_end_are_marked_and_deep_indentation_is_not() {
        assert_eq!(marked("rm x "), "rm x\\u{20}");
        assert_eq!(marked("rm x   "), "rm x\\u{3 spaces}");
        assert_eq!(marked(" "), "\\u{20}");
        unmarked(&format!("{}x", " ".repeat(32)));
        assert_eq!(marked(&format!("{}x", " ".repeat(33))), "\\u{33 spaces}x");
    }

    #[test]
    fn s4_a_mark_cannot_be_forged() {
        assert_eq!(marked("\\u{202e}"), "\\u{5c}u{202e}");
        assert_eq!(marked("\\\\u{202e}"), "\\\\u{5c}u{202e}");
        assert_eq!(marked("⇥↵"), "\\u{21e5}\\u{21b5}");
    }

    #[test]
    fn s4_combining_characters_are_marked_beyond_a_few_and_on_blanks() {
        let storm = format!("a{}", "\u{301}".repeat(10));
        assert_eq!(marked(&storm), "a\u{301}\u{301}\u{301}\u{301}\\u{6 × 301}");
        assert_eq!(marked("a\u{301}\u{302}\u{303}\u{304}\u{305}\u{306}b"), {
            "a\u{301}\u{302}\u{303}\u{304}\\u{305}\\u{306}b"
        });
        assert_eq!(marked("\u{301}a"), "\\u{301}a");
        assert_eq!(marked("a \u{332}b"), "a \\u{332}b");
        assert_eq!(marked("\u{200b}\u{301}"), "\\u{200b}\\u{301}");
    }

    #[test]
    fn s4_what_is_of_another_writing_than_its_letter_is_marked() {
        // Parts of Korean syllables, stackers of Burmese and Khmer, vowels of Thai, numbers that no character has.
        for c in [
            '\u{1161}',
            '\u{11a8}',
            '\u{d7b0}',
            '\u{d7cb}',
            '\u{1039}',
            '\u{17d2}',
            '\u{e38}',
            '\u{489}',
            '\u{a67c}',
            '\u{f71}',
            '\u{2cef}',
            '\u{64b}',
            '\u{378}',
            '\u{1133c}',
        ] {
            let mark = format!("\\u{{{:x}}}", u32::from(c));
            assert_eq!(marked(&format!("git{c} push")), format!("git{mark} push"));
            assert_eq!(marked(&format!("g{c}it")), format!("g{mark}it"));
            assert_eq!(marked(&format!("v1{c}")), format!("v1{mark}"));
        }
        assert_eq!(marked("\u{1100}\u{1161}\u{1161}"), "\u{1100}\u{1161}\\u{1161}");
        assert_eq!(marked("\u{ac00}\u{11a8}"), "\u{ac00}\\u{11a8}");
        assert_eq!(marked("ls \u{378}"), "ls \\u{378}");
        for text in [
            // Composed and in parts, each as people write it.
            "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}",
            "မြန်မာ ဗုဒ္ဓ",
            "ខ្មែរ ភ្នំពេញ",
            "ภาษาไทย น้ำ",
            "हिन्दी क्षत्रिय",
            "தமிழ் বাংলা ਪੰਜਾਬੀ తెలుగు ಕನ್ನಡ മലയാളം සිංහල བོད་ཡིག",
            "שָׁלוֹם العَرَبِيَّة فارسی",
            "ά ё и\u{306} e\u{323}\u{302} か\u{3099} v1\u{332}",
            "Việt Nam, Yorùbá, Lietùva",
        ] {
            unmarked(text);
        }
    }

    #[test]
    fn lines_split_at_line_feeds_only() {
        let safe = safe_lines("a\r\nb\u{2028}c\n\td");
        assert_eq!(safe.lines, ["a\\u{d}", "b\\u{2028}c", "⇥d"]);
        assert!(safe.marked);
        assert_eq!(safe_lines("a\n\nb\n").lines, ["a", "", "b", ""]);
        assert!(!safe_lines("a\n\nb\n").marked);
        assert_eq!(safe_lines("").lines, [""]);
    }

    #[test]
    fn s4_many_empty_lines_become_one_with_a_count() {
        let safe = safe_lines(&format!("ls{}rm x", "\n".repeat(10_000)));
        assert_eq!(safe.lines, ["ls", "\\u{9999 empty lines}", "rm x"]);
        assert!(safe.marked);
    }
}
