//! One line of input with a cursor, and the draft that outlives it.

use askd_text::safe;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::key::Key;

/// Longest line that is taken, in characters.
const MOST: usize = 4096;

/// A line that somebody has begun, with the cursor in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    pub text: String,
    /// Byte offset of the cursor, on a character boundary.
    pub cursor: usize,
}

impl Draft {
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { cursor: text.len(), text }
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

/// What a key did to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edit {
    /// It is part of the line now, or moved in it.
    Done,
    /// Some of what was pasted cannot be shown, and was left out.
    LeftOut(usize),
    /// Not a key for a line.
    NotMine,
}

/// The line while it is edited.
#[derive(Debug, Clone, Default)]
pub(crate) struct Editor {
    draft: Draft,
}

impl Editor {
    pub(crate) fn with(mut draft: Draft) -> Self {
        draft.cursor = draft.cursor.min(draft.text.len());
        while !draft.text.is_char_boundary(draft.cursor) {
            draft.cursor -= 1;
        }
        Self { draft }
    }

    pub(crate) fn text(&self) -> &str {
        &self.draft.text
    }

    pub(crate) fn into_draft(self) -> Draft {
        self.draft
    }

    #[cfg(test)]
    fn draft(&self) -> &Draft {
        &self.draft
    }

    pub(crate) fn key(&mut self, key: &Key) -> Edit {
        let Draft { text, cursor } = &mut self.draft;
        let before = text[..*cursor].chars().next_back().map(char::len_utf8);
        let after = text[*cursor..].chars().next().map(char::len_utf8);
        match key {
            Key::Char(c) => return self.insert(&c.to_string()),
            Key::Paste(pasted) => return self.insert(pasted),
            Key::Backspace => {
                if let Some(len) = before {
                    *cursor -= len;
                    text.remove(*cursor);
                }
            }
            Key::Delete | Key::Ctrl('d') => {
                if after.is_some() {
                    text.remove(*cursor);
                }
            }
            Key::Left | Key::Ctrl('b') => *cursor -= before.unwrap_or(0),
            Key::Right | Key::Ctrl('f') => *cursor += after.unwrap_or(0),
            Key::Home | Key::Ctrl('a') => *cursor = 0,
            Key::End | Key::Ctrl('e') => *cursor = text.len(),
            Key::Ctrl('u') => {
                text.drain(..*cursor);
                *cursor = 0;
            }
            Key::Ctrl('k') => text.truncate(*cursor),
            Key::Ctrl('w') => {
                let kept = text[..*cursor].trim_end();
                let start = kept.rfind(char::is_whitespace).map_or(0, |at| at + 1);
                text.drain(start..*cursor);
                *cursor = start;
            }
            _ => return Edit::NotMine,
        }
        Edit::Done
    }

    /// Puts text in at the cursor, as one line; what cannot be shown is left out and counted.
    fn insert(&mut self, new: &str) -> Edit {
        let Draft { text, cursor } = &mut self.draft;
        let room = MOST.saturating_sub(text.chars().count());
        let mut left_out = 0;
        let mut kept = String::with_capacity(new.len());
        for (count, c) in new.chars().enumerate() {
            let c = if matches!(c, '\n' | '\r' | '\t') { ' ' } else { c };
            if count < room && can_be_shown(c) {
                kept.push(c);
            } else {
                left_out += 1;
            }
        }
        text.insert_str(*cursor, &kept);
        *cursor += kept.len();
        if left_out == 0 { Edit::Done } else { Edit::LeftOut(left_out) }
    }

    /// The part of the line that fits into `columns`, and the column of the cursor in it.
    pub(crate) fn window(&self, columns: usize) -> (&str, usize) {
        let Draft { text, cursor } = &self.draft;
        let columns = columns.max(2);
        let mut start = 0;
        // The cursor needs a column of its own behind the text.
        while text[start..*cursor].width() + 1 > columns {
            start += text[start..].chars().next().map_or(1, char::len_utf8);
        }
        let mut width = 0;
        let shown = text[start..].char_indices().find(|(_, c)| {
            width += c.width().unwrap_or(0);
            width > columns
        });
        let end = shown.map_or(text.len(), |(at, _)| start + at);
        (&text[start..end], text[start..*cursor].width())
    }
}

/// A space is, and an accent where it has a letter to stand on.
fn can_be_shown(c: char) -> bool {
    match c.width() {
        _ if c == ' ' => true,
        Some(0) => !safe(&format!("a{c}")).marked,
        _ => !safe(c.encode_utf8(&mut [0; 4])).marked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(editor: &mut Editor, text: &str) {
        for c in text.chars() {
            editor.key(&Key::Char(c));
        }
    }

    #[test]
    fn a_line_is_edited_by_characters() {
        let mut editor = Editor::default();
        typed(&mut editor, "nöt this");
        for key in
            [Key::Home, Key::Right, Key::Delete, Key::Char('o'), Key::End, Key::Ctrl('w'), Key::Char('x')]
        {
            assert_eq!(editor.key(&key), Edit::Done);
        }
        assert_eq!(editor.draft(), &Draft { text: "not x".into(), cursor: 5 });
        editor.key(&Key::Backspace);
        editor.key(&Key::Ctrl('u'));
        assert_eq!(editor.text(), "");
        for key in [Key::Backspace, Key::Delete, Key::Left, Key::Right] {
            assert_eq!(editor.key(&key), Edit::Done);
        }
        assert_eq!(editor.key(&Key::Up), Edit::NotMine);
        assert_eq!(editor.key(&Key::Enter), Edit::NotMine);
    }

    #[test]
    fn t14_a_draft_comes_back_with_its_cursor() {
        let mut editor = Editor::with(Draft { text: "häuser".into(), cursor: 3 });
        typed(&mut editor, "X");
        assert_eq!(editor.into_draft(), Draft { text: "häXuser".into(), cursor: 4 });
        // A cursor inside a character, or behind the end, is moved to where one can be.
        assert_eq!(Editor::with(Draft { text: "ä".into(), cursor: 1 }).draft().cursor, 0);
        assert_eq!(Editor::with(Draft { text: "a".into(), cursor: 9 }).draft().cursor, 1);
    }

    #[test]
    fn s4_pasted_text_becomes_one_line_of_what_can_be_shown() {
        let mut editor = Editor::default();
        assert_eq!(
            editor.key(&Key::Paste("a\r\nb\u{1b}[2J\u{202e}\u{200b}e\u{301}".into())),
            Edit::LeftOut(3)
        );
        assert_eq!(editor.text(), "a  b[2Je\u{301}");
        let mut editor = Editor::default();
        editor.key(&Key::Paste("x".repeat(MOST + 7)));
        assert_eq!(editor.text().len(), MOST);
    }

    #[test]
    fn the_cursor_stays_in_sight() {
        let mut editor = Editor::default();
        typed(&mut editor, "0123456789");
        assert_eq!(editor.window(20), ("0123456789", 10));
        assert_eq!(editor.window(5), ("6789", 4));
        editor.key(&Key::Home);
        assert_eq!(editor.window(5), ("01234", 0));
        let mut wide = Editor::default();
        typed(&mut wide, "漢字漢字");
        assert_eq!(wide.window(5), ("漢字", 4));
    }
}
