//! What covers the list for a moment: help, a question about several asks, the agent's own options, output of a command.

use askd_wire::Decision;

use super::canvas::Canvas;
use super::help;
use crate::guard::Target;
use crate::now::Now;
use crate::pager::Pager;
use crate::queue::{Bulk, Mode, Options, Queue, Screen};
use crate::rows::{Look, Row, flow, push_marked, wrap};
use crate::words;

/// A row of a panel, and the ask whose action it is part of.
type PanelRow = (Row, Option<String>);

impl Queue {
    pub(super) fn panel(&mut self, canvas: &mut Canvas<'_>, screen: &mut Screen, now: Now) {
        let height = usize::from(canvas.area.height);
        let inner = canvas.columns() - 2;
        // Taken out for the time of drawing, so that the asks can be looked at beside it.
        let mut mode = std::mem::replace(&mut self.mode, Mode::List);
        let (title, rows, mut last) = match &mode {
            Mode::Help(_) => (Row::of("keys", Look::Strong), help::rows(inner), closing("esc back")),
            Mode::Output { lines, .. } => {
                (Row::of("reply", Look::Strong), output(lines, inner), closing("esc back  / command"))
            }
            Mode::Options(options) => {
                let title = Row::of(format!("{}: what else the agent offers", options.handle), Look::Strong);
                let rows = options.rows(inner).into_iter().map(|row| (row, None)).collect();
                screen.target = Some(Target::Options(options.id.clone()));
                let over = !self.items.get(&options.id).is_some_and(crate::item::Item::is_answerable);
                (title, rows, options_keys(options, over))
            }
            Mode::Bulk(bulk) => {
                screen.target = Some(Target::Bulk(bulk.number));
                let last = self.question(bulk, inner, now);
                (bulk_title(bulk), self.bulk_rows(bulk, inner), last)
            }
            Mode::List | Mode::Details | Mode::Line(_) => unreachable_panel(),
        };
        canvas.rule(1);
        canvas.put_at(1, 1, &padded(title), inner);
        if let Some(hint) = &self.hint {
            last.insert(0, Row::of(askd_text::cut(hint, inner), Look::Warn));
        }
        let room = height.saturating_sub(2 + last.len());
        let pager = match &mut mode {
            Mode::Help(pager) | Mode::Output { pager, .. } => pager,
            Mode::Options(options) => &mut options.pager,
            Mode::Bulk(bulk) => &mut bulk.pager,
            Mode::List | Mode::Details | Mode::Line(_) => &mut Pager::default(),
        };
        let has_pages = rows.len() > room;
        let page = if has_pages { room.saturating_sub(1) } else { room };
        let range = pager.fit(rows.len(), page.max(1));
        for (line, (row, of)) in rows[range].iter().enumerate() {
            let whole = canvas.put_at(1, 2 + line, row, inner);
            if whole && row.to > row.from {
                match of {
                    Some(id) => screen.parts.push((id.clone(), row.from, row.to)),
                    None => screen.panel.push((row.from, row.to)),
                }
            }
        }
        if has_pages {
            let mut row = Row::of(pager.place(), Look::Warn);
            if !pager.is_at_end() {
                row = row.with(" · ", Look::Quiet).with("space", Look::Key).with(" for more", Look::Quiet);
            }
            canvas.put_at(1, 2 + page, &row, inner);
        }
        let from = height.saturating_sub(last.len());
        for (line, row) in last.iter().enumerate() {
            canvas.put_at(1, from + line, row, inner);
        }
        self.mode = mode;
    }

    /// Each ask of the question with its action in full; those that ended meanwhile say so.
    fn bulk_rows(&mut self, bulk: &Bulk, columns: usize) -> Vec<PanelRow> {
        let open: Vec<String> = self.bulk_open(bulk).into_iter().map(|frozen| frozen.id.clone()).collect();
        let mut rows = Vec::new();
        for frozen in &bulk.asks {
            if !open.contains(&frozen.id) {
                rows.push((Row::of(format!("{}  over meanwhile", frozen.handle), Look::Quiet), None));
                continue;
            }
            let Some(item) = self.items.get_mut(&frozen.id) else { continue };
            let content = item.rows(columns.saturating_sub(2));
            let Some(item) = self.items.get(&frozen.id) else { continue };
            let tool = format!("{}  {}", frozen.handle, words::one(&item.ask.action.tool));
            // Who asks is a row each at most: names have no say in how much of the action is beside them.
            let one_row = |text: &str| askd_text::cut(text, columns);
            let mut parts = vec![(one_row(&tool), Look::Strong)];
            parts.extend(
                self.around.who(&item.ask).into_iter().map(|(text, _)| (one_row(&text), Look::Quiet)),
            );
            rows.extend(flow(&parts, columns).into_iter().map(|row| (row, None)));
            // A deny needs no reading: the beginning of a long action is enough to know it by.
            let most = if bulk.decision == Decision::Deny { 3 } else { content.len() };
            for row in content.iter().take(most) {
                let mut row = row.clone();
                row.pieces.insert(0, crate::rows::Piece { text: "  ".to_owned(), look: Look::Quiet });
                rows.push((row, Some(frozen.id.clone())));
            }
            if content.len() > most {
                let text = format!("  … (+{} rows)", content.len() - most);
                rows.push((Row::of(text, Look::Quiet), None));
            }
        }
        rows
    }

    fn question(&self, bulk: &Bulk, columns: usize, now: Now) -> Vec<Row> {
        let mut rows = Vec::new();
        for (handle, why) in &bulk.skipped {
            rows.push(Row::of(format!("not {handle}: {why}"), Look::Warn));
        }
        // More than a few would push the question off the screen.
        if rows.len() > 3 {
            let handles: Vec<&str> = bulk.skipped.iter().map(|(handle, _)| handle.as_str()).collect();
            let text = format!("not {}: safety asks, or not fully shown", handles.join(" "));
            let mut parts: Vec<Row> =
                wrap(&text, columns).into_iter().map(|part| Row::of(part, Look::Warn)).collect();
            if parts.len() > 3 {
                let text = format!("not {} others: safety asks, or not fully shown", bulk.skipped.len());
                parts = vec![Row::of(text, Look::Warn)];
            }
            rows = parts;
        }
        let count = self.bulk_open(bulk).len();
        let verb = crate::queue::verb(bulk.decision);
        let counts = self.may_bulk(bulk, now).is_ok();
        let mut row = Row::of(format!("{verb} {count}? "), Look::Strong);
        row.push("y", if counts { Look::Key } else { Look::Quiet });
        row.push(format!("  {verb} exactly these"), Look::Quiet);
        row = row.with("   esc", Look::Key).with("  leave them open", Look::Quiet);
        rows.push(row);
        rows
    }
}

fn unreachable_panel() -> (Row, Vec<PanelRow>, Vec<Row>) {
    (Row::new(), Vec::new(), Vec::new())
}

fn bulk_title(bulk: &Bulk) -> Row {
    let verb = crate::queue::verb(bulk.decision);
    Row::of(format!("{verb} the background asks that were on the screen"), Look::Strong)
}

fn padded(row: Row) -> Row {
    let mut padded = Row::of(" ", Look::Plain);
    padded.pieces.extend(row.pieces);
    padded.with(" ", Look::Plain)
}

fn closing(text: &str) -> Vec<Row> {
    vec![Row::of(text, Look::Quiet)]
}

fn options_keys(options: &Options, over: bool) -> Vec<Row> {
    if over {
        return vec![Row::of("that ask is over: ", Look::Warn).with("esc back", Look::Quiet)];
    }
    let keys = match options.choices.len() {
        1 if options.is_one_yes() => "1 or y".to_owned(),
        1 => "1".to_owned(),
        count => format!("1 to {count}"),
    };
    let mut row = Row::of(keys, Look::Key);
    row.push(" chooses it   ", Look::Quiet);
    row.push("esc", Look::Key);
    row.push(" back, nothing is answered", Look::Quiet);
    vec![row]
}

fn output(lines: &[String], columns: usize) -> Vec<PanelRow> {
    let mut rows = Vec::new();
    for line in lines {
        for part in wrap(line, columns) {
            let mut row = Row::new();
            push_marked(&mut row, part, Look::Plain);
            rows.push((row, None));
        }
    }
    rows
}
