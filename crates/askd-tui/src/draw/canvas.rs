//! Rows onto a buffer, in the queue's looks.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use crate::rows::{Look, Piece, Row};

/// An area of a buffer, written row by row from above; what does not fit is told by the one who writes.
pub(crate) struct Canvas<'a> {
    buffer: &'a mut Buffer,
    pub(crate) area: Rect,
    colour: bool,
    /// Everything quiet: what is shown may be old.
    faded: bool,
}

impl<'a> Canvas<'a> {
    pub(crate) fn new(buffer: &'a mut Buffer, area: Rect, colour: bool, faded: bool) -> Self {
        let area = area.intersection(buffer.area);
        // A host may have drawn something below.
        for position in area.positions() {
            buffer[position].reset();
        }
        Self { buffer, area, colour, faded }
    }

    pub(crate) fn columns(&self) -> usize {
        usize::from(self.area.width)
    }

    /// Writes a row at line `y` of the area. False: it did not fit, so it was not shown in full.
    pub(crate) fn put(&mut self, y: usize, row: &Row) -> bool {
        self.put_at(0, y, row, self.columns())
    }

    /// The same at column `x`, at most `columns` wide.
    pub(crate) fn put_at(&mut self, x: usize, y: usize, row: &Row, columns: usize) -> bool {
        let (Ok(dx), Ok(dy)) = (u16::try_from(x), u16::try_from(y)) else { return false };
        if dx >= self.area.width || dy >= self.area.height {
            return row.pieces.is_empty();
        }
        let end = (x + columns).min(self.columns());
        let mut at = x;
        let mut whole = true;
        for Piece { text, look } in &row.pieces {
            let Ok(column) = u16::try_from(at) else { return false };
            let style = self.style(*look);
            let room = end.saturating_sub(at);
            let (next, _) =
                self.buffer.set_stringn(self.area.x + column, self.area.y + dy, text, room, style);
            let used = usize::from(next.saturating_sub(self.area.x + column));
            whole &= used >= crate::rows::width(text);
            at += used;
        }
        whole
    }

    /// A line of one character.
    pub(crate) fn rule(&mut self, y: usize) {
        self.put(y, &Row::of("─".repeat(self.columns()), Look::Quiet));
    }

    fn style(&self, look: Look) -> Style {
        let style = style(look, self.colour);
        if self.faded { style.add_modifier(Modifier::DIM) } else { style }
    }
}

/// Without colours weight and reversal say the same.
fn style(look: Look, colour: bool) -> Style {
    let plain = Style::new();
    match (look, colour) {
        (Look::Plain, _) | (Look::Added | Look::Removed, false) => plain,
        (Look::Strong | Look::Key, _) | (Look::Warn, false) => plain.add_modifier(Modifier::BOLD),
        (Look::Quiet, _) => plain.add_modifier(Modifier::DIM),
        (Look::Warn, true) => plain.fg(Color::Yellow),
        (Look::Danger, true) => plain.fg(Color::Red).add_modifier(Modifier::BOLD),
        (Look::Danger | Look::Mark, false) => plain.add_modifier(Modifier::BOLD | Modifier::REVERSED),
        (Look::Mark, true) => plain.fg(Color::Magenta).add_modifier(Modifier::BOLD),
        (Look::Added, true) => plain.fg(Color::Green),
        (Look::Removed, true) => plain.fg(Color::Red),
    }
}
