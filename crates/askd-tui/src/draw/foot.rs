//! The last lines: what happened, and the line that is typed or the keys there are.

use askd_text::cut;
use ratatui::layout::Position;

use super::canvas::Canvas;
use crate::notes::{About, Note};
use crate::now::Now;
use crate::queue::{Line, Mode, Purpose, Queue};
use crate::rows::{Look, Row, push_marked, width, wrap_words};

/// From this height on there is room for more than the newest line.
const TALL: u16 = 20;

pub(super) struct Foot {
    pub(super) height: usize,
    pub(super) cursor: Option<Position>,
}

impl Queue {
    /// Draws it and says how high it is.
    pub(super) fn foot(&self, canvas: &mut Canvas<'_>, _now: Now) -> Foot {
        let bottom = usize::from(canvas.area.height);
        let mut cursor = None;
        let mut height = 1;
        match &self.mode {
            Mode::Line(line) => {
                let rows = self.line_label(line, canvas.columns());
                height = 2;
                canvas.put_at(1, bottom - 2, &rows, canvas.columns() - 2);
                cursor = Some(typed(canvas, bottom - 1, line));
            }
            _ => {
                let room = canvas.columns() - 2;
                canvas.put_at(1, bottom - 1, &self.keys(room), room);
            }
        }
        let most = if canvas.area.height >= TALL { 3 } else { 1 };
        let room = canvas.columns() - 2;
        let hint = self.hint.as_ref().map(|hint| Note {
            handle: String::new(),
            about: About::default(),
            text: hint.clone(),
            look: Look::Warn,
        });
        let lines: Vec<&Note> = self.notes.last(most - usize::from(hint.is_some())).chain(&hint).collect();
        let tall = most > 1;
        // What happened takes no more room than this from what is asked; the newest has the first claim.
        let budget = (bottom / 6).max(1);
        let mut notes: Vec<Row> = Vec::new();
        for note in lines.into_iter().rev() {
            let matters = tall || note.look == Look::Warn || !note.handle.is_empty();
            let left = budget - notes.len();
            if left == 0 {
                break;
            }
            let rows = note_rows(note, room, if matters { NOTE_ROWS.min(left) } else { 1 });
            notes.extend(rows.into_iter().take(left).rev());
        }
        for (at, row) in notes.iter().enumerate() {
            canvas.put_at(1, bottom - height - 1 - at, row, room);
        }
        // A gap, where there is room for one.
        let gap = usize::from(canvas.area.height >= TALL && !notes.is_empty());
        Foot { height: height + notes.len() + gap, cursor }
    }

    /// The keys that are not of the one ask; the least needed go first where there is little room.
    fn keys(&self, columns: usize) -> Row {
        // Key, what it does, what it does in short, how much it is needed.
        let mut keys: Vec<(&str, &str, &str, u8)> = Vec::new();
        if self.focus.is_some() {
            if self.listed.len() > 1 {
                keys.push(("↑↓", "move", "move", 0));
            }
            if self.items.values().any(|item| item.is_background() && item.is_answerable()) {
                keys.push(("a/d", "allow/deny all background", "background", 3));
            }
            keys.push(("s", "snooze", "snooze", 1));
            let details = if matches!(self.mode, Mode::Details) { "back" } else { "details" };
            keys.push(("enter", details, details, 2));
        } else if self.items.values().any(|item| item.snoozed_until_ms.is_some()) {
            keys.push(("S", "show snoozed", "show snoozed", 3));
        }
        keys.extend([("/", "command", "command", 2), ("?", "help", "help", 4), ("q", "leave", "leave", 4)]);
        let row = |keys: &[(&str, &str, &str, u8)], short: bool| {
            let mut row = Row::new();
            for (at, (key, long, brief, _)) in keys.iter().enumerate() {
                let gap = if short { "  " } else { "   " };
                row.push(if at > 0 { gap } else { "" }, Look::Quiet);
                row.push(*key, Look::Key);
                row.push(format!(" {}", if short { brief } else { long }), Look::Quiet);
            }
            row
        };
        let long = row(&keys, false);
        if long.width() <= columns {
            return long;
        }
        for least in 0..=4 {
            keys.retain(|(.., need)| *need >= least);
            let short = row(&keys, true);
            if short.width() <= columns {
                return short;
            }
        }
        row(&keys, true)
    }

    /// What the line is for, so that nothing is sent to anything else.
    fn line_label(&self, line: &Line, columns: usize) -> Row {
        // A name goes on for as long as it likes; what the keys do is to be seen all the same.
        let name = |name: &str| cut(name, columns.saturating_sub(28).max(12));
        match &line.purpose {
            Purpose::Message { id, handle, stop, .. } => {
                if !self.items.get(id).is_some_and(crate::item::Item::is_answerable) {
                    return Row::of(format!("{handle} is over: "), Look::Warn)
                        .with("nothing will be sent; esc keeps your words", Look::Quiet);
                }
                let what = if *stop { "deny and stop the turn" } else { "deny" };
                let other = if *stop { "let it go on" } else { "stop the turn" };
                Row::of(format!("{what} {handle}, saying"), Look::Strong)
                    .with(format!("   tab {other}   esc back"), Look::Quiet)
            }
            Purpose::Command { session: None, .. } => {
                Row::of("for every session", Look::Strong).with("   esc back", Look::Quiet)
            }
            Purpose::Command { session: Some((_, session)), only: true } => {
                let mut row = Row::of("for ", Look::Strong);
                push_marked(&mut row, &name(session), Look::Strong);
                row.with("   tab every session   esc back", Look::Quiet)
            }
            Purpose::Command { session: Some((_, session)), only: false } => {
                let row = Row::of("for every session", Look::Strong).with("   tab only ", Look::Quiet);
                row.with(name(session), Look::Quiet).with("   esc back", Look::Quiet)
            }
        }
    }
}

/// The line itself; gives the place of the cursor.
fn typed(canvas: &mut Canvas<'_>, y: usize, line: &Line) -> Position {
    let room = canvas.columns().saturating_sub(4);
    let (text, cursor) = line.editor.window(room);
    let row = Row::of("› ", Look::Key).with(text, Look::Plain);
    canvas.put_at(1, y, &row, room + 2);
    let column = u16::try_from(3 + cursor).unwrap_or(u16::MAX);
    Position {
        x: canvas.area.x.saturating_add(column).min(canvas.area.right().saturating_sub(1)),
        y: canvas.area.y + u16::try_from(y).unwrap_or(0),
    }
}

/// Most rows of one line about something that happened.
const NOTE_ROWS: usize = 3;

/// What happened comes first; what it was about gets the room that is left. What matters may take a few rows.
fn note_rows(note: &Note, columns: usize, most: usize) -> Vec<Row> {
    let mut row = Row::new();
    if !note.handle.is_empty() {
        row.push(format!("{}  ", note.handle), Look::Quiet);
    }
    let lead = row.width();
    let room = columns.saturating_sub(lead + width(&note.text) + 2);
    if !note.about.is_empty() && room >= 12 {
        row.push(format!("{}  ", note.about.within(room)), Look::Quiet);
    }
    // Wrapping between words needs some room more.
    let slack = if most > 1 { 12 } else { 0 };
    let text = cut(&note.text, (columns.saturating_sub(lead) * most).saturating_sub(slack));
    let mut rows = Vec::new();
    for part in wrap_words(&text, columns.saturating_sub(row.width())) {
        push_marked(&mut row, part, note.look);
        rows.push(std::mem::replace(&mut row, Row::of(" ".repeat(lead), Look::Quiet)));
    }
    rows
}
