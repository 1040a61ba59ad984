//! What a person reads on their phone: cards ([`card()`]), what became of them, lists. Plain text that is complete by
//! itself, and the same with marks of its own, in which nothing of an agent is markup.

mod card;
mod said;

use std::time::Duration;

use askd_text::duration;
use askd_words::Sessions;
use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use card::{Card, Keyboard, MOST_PARTS, Stage, card, is_whole};
pub use said::{LONGEST_TOAST, already, done, handle_of, is_prompt, list, prompt, refused, toast};

/// Longest text of a message in UTF-16 code units, without its markup.
pub const LONGEST_MESSAGE: usize = 4096;

/// Who and where the reader is.
#[derive(Debug)]
pub struct Reader {
    pub sessions: Sessions,
    pub zone: TimeZone,
}

/// One message: safe text, with its parts marked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    pub plain: String,
    /// The same with Telegram's HTML around.
    pub html: String,
}

impl Text {
    /// Text without any marks.
    pub fn of(text: &str) -> Self {
        let mut it = Self::default();
        it.add("", text, "");
        it
    }

    fn add(&mut self, open: &str, text: &str, close: &str) {
        self.plain.push_str(text);
        self.html.push_str(open);
        self.html.push_str(&escape(text));
        self.html.push_str(close);
    }

    fn bold(&mut self, text: &str) {
        self.add("<b>", text, "</b>");
    }

    fn line(&mut self, text: &str) {
        self.add("", &format!("\n{text}"), "");
    }

    /// Text in letters of one width, in which no address becomes a link.
    fn block(&mut self, text: &str) {
        if !text.is_empty() {
            self.add("", "\n", "");
            self.add("<pre>", text, "</pre>");
        }
    }
}

/// The three signs that Telegram's HTML knows.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Text in messages of the longest length; lines stay whole where they can.
pub fn pieces(text: &str) -> Vec<String> {
    let field = askd_text::DisplayField {
        label: String::new(),
        lines: text.lines().map(str::to_owned).collect(),
        marked: false,
        complete: true,
    };
    if text.encode_utf16().count() <= LONGEST_MESSAGE {
        return vec![text.to_owned()];
    }
    askd_text::messages(&[field], LONGEST_MESSAGE)
        .into_iter()
        .map(|text| text.trim_start_matches(":\n").to_owned())
        .collect()
}

/// Milliseconds since 1970 of a time as it is told on the wire.
pub fn millis(time: &str) -> Option<i64> {
    time.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

fn span(ms: i64) -> Duration {
    // Rounded to whole seconds, so that six minutes are not 5m59s.
    Duration::from_secs(u64::try_from(ms.saturating_add(500) / 1000).unwrap_or(0))
}

fn clock(ms: i64, reader: &Reader) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(at) => at.to_zoned_datetime(reader.zone.clone()).strftime("%H:%M:%S").to_string(),
        Err(_) => duration(Duration::ZERO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_come_in_pieces() {
        let text: String = (0..900).map(|n| format!("line {n}\n")).collect();
        let pieces = pieces(&text);
        assert!(pieces.len() > 1);
        assert!(pieces.iter().all(|piece| piece.encode_utf16().count() <= LONGEST_MESSAGE));
        assert!((0..900).all(|n| pieces.iter().any(|piece| piece.contains(&format!("line {n}")))));
    }
}
