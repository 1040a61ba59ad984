//! The list: one row for each ask, with who asks and how long it lasts.

use std::ops::Range;

use askd_text::cut;

use super::canvas::Canvas;
use crate::item::Item;
use crate::now::Now;
use crate::queue::{Queue, Screen};
use crate::rows::{Look, Row, push_marked, width};
use crate::words;

/// From this width on a row says the timed answer in full.
const WIDE: usize = 90;

impl Queue {
    /// Draws it when there is more than the ask in focus; gives the first line below.
    pub(super) fn list(
        &mut self,
        canvas: &mut Canvas<'_>,
        body: Range<usize>,
        screen: &mut Screen,
        now: Now,
    ) -> usize {
        let count = self.listed.len();
        if count < 2 {
            return body.start;
        }
        let height = count.min((usize::from(canvas.area.height).saturating_sub(6) / 3).max(2));
        self.scroll(height);
        let alike = self.alike();
        let handles = self.listed.iter().filter_map(|id| self.items.get(id));
        let handle_columns = handles.map(|item| item.ask.handle.chars().count()).max().unwrap_or(3).min(12);
        let end = (self.list_top + height).min(count);
        for (line, id) in self.listed[self.list_top..end].iter().enumerate() {
            let Some(item) = self.items.get(id) else { continue };
            let focused = self.focus.as_ref() == Some(id);
            let group = alike.get(id.as_str()).copied();
            let row = self.list_row(item, focused, group, handle_columns, canvas.columns(), now, screen);
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

    #[expect(clippy::too_many_arguments, reason = "all of it is the one row")]
    fn list_row(
        &self,
        item: &Item,
        focused: bool,
        group: Option<(usize, usize)>,
        handle_columns: usize,
        columns: usize,
        now: Now,
        screen: &mut Screen,
    ) -> Row {
        let look = match (item.is_handed_back(), focused) {
            (true, _) => Look::Quiet,
            (false, true) => Look::Strong,
            (false, false) => Look::Plain,
        };
        let who_columns = (columns / 5).clamp(10, 30);
        let who = cut(&self.around.short(&item.ask), who_columns);
        let (ends, ends_look) = ends(item, columns >= WIDE, now, screen);
        // `background` is what the bulk keys go by.
        let tag = match (item.is_safety(), item.is_background()) {
            (true, _) => ("safety", Look::Danger),
            (false, true) if columns >= WIDE => ("background", Look::Quiet),
            (false, true) => ("bg", Look::Quiet),
            (false, false) => ("", Look::Quiet),
        };
        let mut right = Row::new();
        for (text, look) in [(tag.0, tag.1), (who.as_str(), Look::Quiet), (ends.as_str(), ends_look)] {
            if !text.is_empty() {
                if !right.pieces.is_empty() {
                    right.push("  ", Look::Quiet);
                }
                push_marked(&mut right, text, look);
            }
        }
        let mark = if focused { "▌" } else { " " };
        let handle = cut(&words::one(&item.ask.handle), handle_columns);
        let mut row = Row::of(mark, Look::Key);
        let pad = " ".repeat(handle_columns.saturating_sub(width(&handle)));
        row.push(format!("{handle}{pad}  "), look);
        let group = group.map(|(at, of)| format!(" ({at} of {of} alike)")).unwrap_or_default();
        let room = columns.saturating_sub(row.width() + right.width() + width(&group) + 3);
        let summary = cut(&item.summary(room), room);
        let summary_width = width(&summary);
        push_marked(&mut row, &summary, look);
        row.push(group, Look::Quiet);
        row.push(" ".repeat(room.saturating_sub(summary_width) + 2), Look::Quiet);
        row.pieces.append(&mut right.pieces);
        row
    }
}

/// How the ask ends by itself, as short as there is room for.
fn ends(item: &Item, wide: bool, now: Now, screen: &mut Screen) -> (String, Look) {
    if item.is_handed_back() {
        return ("handed back".to_owned(), Look::Quiet);
    }
    let gives_up = item.gives_up_soon(now);
    screen.countdowns.extend(item.countdowns(now));
    match (item.left(now), gives_up) {
        (Some(left), gives_up) if gives_up.is_none_or(|(_, before)| !before) => {
            let default = item.ask.default;
            let text = if wide { words::timed(default, left) } else { words::timed_short(default, left) };
            (text, if left.as_secs() < 60 { Look::Warn } else { Look::Plain })
        }
        (_, Some((left, _))) => (format!("gives up {}", askd_text::duration(left)), Look::Warn),
        _ => (String::new(), Look::Quiet),
    }
}
