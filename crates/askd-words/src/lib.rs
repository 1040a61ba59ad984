//! What is said about asks, in words, by every surface alike: who asks, what will happen by itself, what became of it.
//! Every line that comes out of here is safe to show. It decides nothing, draws nothing, and knows no clock.
//!
//! Read [`Sessions`] (who asks), [`timed`] and [`ended`] first.

mod life;
mod options;
mod who;

use askd_text::safe;
use unicode_width::UnicodeWidthChar;

pub use life::{
    correction, delivery, elsewhere, ended, gives_up, is_answerable, is_handed_back, late, late_of_yours,
    refusal, settled, timed, timed_short, unrecorded,
};
pub use options::{allows, grants, option_kind, plain_options};
pub use who::{Part, Sessions, subagent};

/// Foreign text for one line.
pub fn one(text: &str) -> String {
    safe(text).text
}

/// Text that was made safe already: its marks stay as they are, and what should not be in it is marked now.
pub fn plain(text: &str) -> String {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    // A letter and what is drawn onto it are looked at together: a few accents are writing, many are none.
    let mut letter = String::new();
    for c in text.chars() {
        if c.width() == Some(0) && !letter.is_empty() {
            letter.push(c);
            continue;
        }
        out.push_str(&one(&std::mem::take(&mut letter)));
        match c {
            ' '..='~' | '⇥' | '↵' if !c.is_alphanumeric() => out.push(c),
            _ => letter.push(c),
        }
    }
    out.push_str(&one(&letter));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s4_what_was_made_safe_stays_and_what_was_not_is_marked() {
        assert_eq!(plain("a\\u{202e}b e\u{301}⇥ 漢"), "a\\u{202e}b e\u{301}⇥ 漢");
        assert_eq!(plain("a\u{202e}b\u{1b}\u{9b}\u{200b}"), "a\\u{202e}b\\u{1b}\\u{9b}\\u{200b}");
    }
}
