//! The list: one row for each ask, with who asks and how long it lasts.

use std::ops::Range;

use askd_text::cut;

use super::canvas::Canvas;
use crate::item::Item;
use crate::now::Now;
use crate::queue::{Queue, Screen};
use crate::rows::{Look, Piece, Row, push_marked, shorten, width};
use crate::words;

/// From this width on a row says everything in words.
const WIDE: usize = 90;
/// Most columns of a handle.
const HANDLE: usize = 12;

/// The parts of one row, before they are lined up.
struct Cells {
    handle: String,
    focused: bool,
    look: Look,
    group: String,
    tag: (&'static str, Look),
    who: String,
    ends: (String, Look),
}

impl Queue {
    /// Draws it when there is more than the ask in focus, at most `most` rows high; gives the first line below.
    pub(super) fn list(
        &mut self,
        canvas: &mut Canvas<'_>,
        body: Range<usize>,
        screen: &mut Screen,
        now: Now,
    ) -> usize {
        if self.listed.len() < 2 {
            return body.start;
        }
        let height = body.len().min(self.listed.len());
        self.scroll(height);
        let columns = canvas.columns();
        let shown = self.listed[self.list_top..self.list_top + height].to_vec();
        let alike = self.alike();
        let cells: Vec<Cells> = shown
            .iter()
            .filter_map(|id| self.items.get(id))
            .map(|item| {
                screen.countdowns.extend(item.countdowns(now));
                let group = alike.get(item.ask.id.as_str()).copied();
                self.cells(item, group, columns, now)
            })
            .collect();
        let widest = |of: fn(&Cells) -> &str| cells.iter().map(|it| width(of(it))).max().unwrap_or(0);
        let handles = widest(|it| &it.handle);
        let (tags, who, ends) = (widest(|it| it.tag.0), widest(|it| &it.who), widest(|it| &it.ends.0));
        for (line, (id, cells)) in shown.iter().zip(&cells).enumerate() {
            let Some(item) = self.items.get(id) else { continue };
            let mut right = Row::new();
            column(&mut right, Row::of(cells.tag.0, cells.tag.1), tags, false);
            let mut name = Row::new();
            push_marked(&mut name, &cells.who, Look::Quiet);
            column(&mut right, name, who, false);
            column(&mut right, Row::of(cells.ends.0.as_str(), cells.ends.1), ends, true);
            let mut row = Row::of(if cells.focused { "▌" } else { " " }, Look::Key);
            column_start(&mut row, &cells.handle, handles, cells.look);
            let room = columns.saturating_sub(row.width() + right.width() + width(&cells.group) + 1);
            let summary = cut(&item.summary(room), room);
            push_marked(&mut row, &summary, cells.look);
            row.push(cells.group.as_str(), Look::Quiet);
            row.push(" ".repeat(room.saturating_sub(width(&summary))), Look::Quiet);
            row.pieces.append(&mut right.pieces);
            canvas.put(body.start + line, &row);
            screen.ids.push(id.clone());
        }
        body.start + height
    }

    fn scroll(&mut self, height: usize) {
        let at = self.focus.as_ref().and_then(|focus| self.listed.iter().position(|id| id == focus));
        if let Some(at) = at {
            self.list_top = self.list_top.min(at).max((at + 1).saturating_sub(height));
        }
        self.list_top = self.list_top.min(self.listed.len().saturating_sub(height));
    }

    fn cells(&self, item: &Item, group: Option<(usize, usize)>, columns: usize, now: Now) -> Cells {
        let wide = columns >= WIDE;
        let focused = self.focus.as_ref() == Some(&item.ask.id);
        let look = match (item.is_handed_back(), focused) {
            (true, _) => Look::Quiet,
            (false, true) => Look::Strong,
            (false, false) => Look::Plain,
        };
        let ends = ends(item, wide, self.not_recorded.is_none(), now);
        // Only background asks have a countdown of this kind, so where there is little room it says both.
        let tag = match (item.is_safety(), item.is_background()) {
            (true, _) => ("safety", Look::Danger),
            (false, true) if wide => ("background", Look::Quiet),
            (false, true) if item.left(now).is_none() => ("bg", Look::Quiet),
            _ => ("", Look::Quiet),
        };
        Cells {
            handle: shorten(&words::one(&item.ask.handle), HANDLE),
            focused,
            look,
            group: match group {
                Some((at, of)) if wide => format!("  {at} of {of} alike"),
                Some((at, of)) => format!(" {at}/{of}"),
                None => String::new(),
            },
            tag,
            who: shorten(&self.around.short(&item.ask), (columns / 5).clamp(8, 30)),
            ends,
        }
    }
}

fn column_start(row: &mut Row, text: &str, columns: usize, look: Look) {
    row.push(text, look);
    row.push(" ".repeat(columns.saturating_sub(width(text)) + 2), look);
}

/// Adds a cell with a gap before it, as wide as its column; nothing for a column that is empty in every row.
fn column(row: &mut Row, mut cell: Row, columns: usize, to_the_right: bool) {
    if columns == 0 {
        return;
    }
    let pad = Piece { text: " ".repeat(columns.saturating_sub(cell.width())), look: Look::Quiet };
    row.push("  ", Look::Quiet);
    if to_the_right {
        row.pieces.push(pad);
        row.pieces.append(&mut cell.pieces);
    } else {
        row.pieces.append(&mut cell.pieces);
        row.pieces.push(pad);
    }
}

/// How the ask ends by itself, as short as there is room for.
fn ends(item: &Item, wide: bool, recorded: bool, now: Now) -> (String, Look) {
    if item.is_handed_back() {
        return ("handed back".to_owned(), Look::Quiet);
    }
    match (item.left(now), item.gives_up_soon(now)) {
        (Some(left), gives_up) if gives_up.is_none_or(|(_, before)| !before) => {
            let default = item.ask.default;
            let text = match wide {
                _ if left.is_zero() && !recorded => "not recorded".to_owned(),
                true => words::timed(default, left),
                false => words::timed_short(default, left),
            };
            (text, if left.as_secs() < 60 { Look::Warn } else { Look::Plain })
        }
        (_, Some((left, _))) => (format!("gives up {}", askd_text::duration(left)), Look::Warn),
        _ => (String::new(), Look::Quiet),
    }
}
