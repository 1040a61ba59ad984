//! Fields as messages of a chat: plain text of limited length, cut into several only where it must be.
//!
//! Lengths are counted in UTF-16 code units, as chat services do; no text has more characters than those.

use crate::display::DisplayField;
use crate::summary::units;

/// What stands before the lines of a field with several; no line of an agent can begin where a label does.
const INDENT: &str = "  ";

fn len16(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

/// Whether all of an action is there and fits into one message of `max` UTF-16 code units.
pub fn fits(fields: &[DisplayField], max: usize) -> bool {
    let mut room = max;
    fields.iter().all(|field| {
        let ends = field.lines.len();
        let lines: usize = field.lines.iter().map(|line| len16(line) + INDENT.len()).sum();
        let len = len16(&field.label) + 2 + lines + ends;
        let fits = field.complete && len <= room;
        room = room.saturating_sub(len);
        fits
    })
}

/// All of an action as plain text in as many messages of at most `max` UTF-16 code units as it needs, at least one.
/// Marks stay whole; a field that goes on in the next message has its label there again. Only a `max` below about
/// 100 can be passed by a long label.
pub fn messages(fields: &[DisplayField], max: usize) -> Vec<String> {
    let mut out = Messages { done: Vec::new(), text: String::new(), len: 0, max };
    for field in fields {
        match field.lines.as_slice() {
            [line] if len16(&field.label) + 2 + len16(line) <= max => {
                out.line(&format!("{}: {line}", field.label), None);
            }
            lines => {
                out.line(&format!("{}:", field.label), None);
                for line in lines {
                    out.wrapped(line, &field.label);
                }
            }
        }
    }
    if !out.text.is_empty() || out.done.is_empty() {
        out.done.push(out.text);
    }
    out.done
}

struct Messages {
    done: Vec<String>,
    text: String,
    len: usize,
    max: usize,
}

impl Messages {
    /// Adds one line of text, in a new message when there is no room; `label` is the field's that it goes on with.
    fn line(&mut self, line: &str, label: Option<&str>) {
        let len = len16(line);
        if !self.text.is_empty() && self.len + 1 + len > self.max {
            self.done.push(std::mem::take(&mut self.text));
            self.len = 0;
            if let Some(label) = label {
                self.text = format!("{label} (goes on):");
                self.len = len16(&self.text);
            }
        }
        if !self.text.is_empty() {
            self.text.push('\n');
            self.len += 1;
        }
        self.text.push_str(line);
        self.len += len;
    }

    /// Adds a line that may be longer than a message.
    fn wrapped(&mut self, line: &str, label: &str) {
        let whole = INDENT.len() + len16(line);
        if !line.is_empty() && self.len + 1 + whole <= self.max {
            return self.line(&format!("{INDENT}{line}"), Some(label));
        }
        let label_len = len16(label) + len16(" (goes on):\n");
        let room = self.max.saturating_sub(label_len + INDENT.len()).max(1);
        let (mut piece, mut len) = (String::from(INDENT), 0);
        for unit in units(line) {
            let unit_len = len16(unit);
            if len > 0 && len + unit_len > room {
                self.line(&piece, Some(label));
                piece.truncate(INDENT.len());
                len = 0;
            }
            piece.push_str(unit);
            len += unit_len;
        }
        self.line(if line.is_empty() { "" } else { &piece }, Some(label));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field(label: &str, lines: &[&str]) -> DisplayField {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        DisplayField { label: label.into(), lines, marked: false, complete: true }
    }

    #[test]
    fn short_actions_are_one_message() {
        let fields = [field("command", &["a", "", "b"]), field("directory", &["/x"])];
        assert_eq!(messages(&fields, 100), ["command:\n  a\n\n  b\ndirectory: /x"]);
        assert!(fits(&fields, 100) && !fits(&fields, 20));
        assert_eq!(messages(&[], 100), [""]);
        assert!(fits(&[], 0));
    }

    #[test]
    fn what_fits_is_one_message_also_where_a_line_alone_would_be_cut_for_the_next() {
        let fields = [field("label", &[&"x".repeat(43), "a"])];
        assert!(fits(&fields, 57));
        assert_eq!(messages(&fields, 57).len(), 1, "{:#?}", messages(&fields, 57));
    }

    #[test]
    fn s4_what_was_cut_does_not_fit() {
        let cut = DisplayField { complete: false, ..field("a", &["b"]) };
        assert!(!fits(&[cut], 100));
    }

    #[test]
    fn a_long_action_goes_on_under_its_label() {
        let fields = [field("command", &[&"x".repeat(100), "y"])];
        let messages = messages(&fields, 60);
        assert_eq!(messages.len(), 3, "{messages:#?}");
        assert!(messages[1].starts_with("command (goes on):\n  xxx"), "{messages:#?}");
        assert_eq!(messages.concat().matches('x').count(), 100);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn s4_messages_hold_everything_and_keep_to_their_length(
            fields in prop::collection::vec(prop::collection::vec("[a-c漢😀]{0,90}", 1..5), 0..4),
            max in 40..200_usize,
        ) {
            let fields: Vec<DisplayField> = fields
                .iter()
                .map(|lines| field("label", &lines.iter().map(String::as_str).collect::<Vec<_>>()))
                .collect();
            let messages = messages(&fields, max);
            for message in &messages {
                prop_assert!(len16(message) <= max);
            }
            let letters = |text: &str| text.chars().filter(|c| !c.is_ascii_punctuation() && *c != '\n' && *c != ' ')
                .collect::<String>().replace("labelgoeson", "").replace("label", "");
            let all: String = fields.iter().flat_map(|field| &field.lines).cloned().collect();
            prop_assert_eq!(letters(&messages.join("\n")), all);
            if fits(&fields, max) {
                prop_assert_eq!(messages.len(), 1);
            }
        }
    }
}
