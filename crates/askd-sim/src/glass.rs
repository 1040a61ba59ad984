//! What stands on the queue's screen, read from its characters alone: which ask is in focus, which are listed, which
//! lines of each have been there. It knows nothing of how the queue works.

use std::collections::{BTreeMap, BTreeSet};

use askd_core::AskId;
use askd_tui::ratatui::buffer::Buffer;
use askd_wire::Ask;

/// A screen that was written, and what was on the ones before.
#[derive(Default)]
pub(crate) struct Glass {
    rows: Vec<String>,
    /// The ask in focus.
    pub(crate) focus: Option<AskId>,
    /// Since when exactly this has been what a key would answer, without a break.
    pub(crate) since: u64,
    /// What a key would answer: the heading of the card or of the panel.
    heading: String,
    /// Asks that have a row or the card.
    pub(crate) named: BTreeSet<AskId>,
    /// Lines of each ask's action that have been on a screen.
    read: BTreeMap<AskId, BTreeSet<String>>,
}

impl Glass {
    /// A frame has been written.
    pub(crate) fn written(&mut self, buffer: &Buffer, asks: &BTreeMap<AskId, Ask>, now: u64) {
        self.rows = rows(buffer);
        let rule = self.rows.iter().find_map(|row| row.strip_prefix("─ ")).unwrap_or_default();
        let heading = rule.split("  ").next().unwrap_or_default().to_owned();
        let focus = asks.iter().find(|(_, ask)| ask.handle == heading).map(|(id, _)| *id);
        if heading != self.heading || focus != self.focus {
            self.since = now;
        }
        self.heading = heading;
        self.focus = focus;
        let starts = |row: &String, handle: &str| {
            let row = row.strip_prefix('▌').or_else(|| row.strip_prefix(' ')).unwrap_or(row);
            row.strip_prefix(handle).is_some_and(|rest| rest.starts_with("  "))
        };
        let named = asks
            .iter()
            .filter(|(_, ask)| self.rows.iter().any(|row| starts(row, &ask.handle)))
            .map(|it| *it.0);
        self.named = named.chain(focus).collect();
        let on_it: Vec<AskId> =
            if self.focus.is_some() { focus.into_iter().collect() } else { self.in_panel(asks) };
        for id in on_it {
            let Some(ask) = asks.get(&id) else { continue };
            let read = self.read.entry(id).or_default();
            let lines = ask.display.iter().flat_map(|field| &field.lines);
            read.extend(lines.filter(|line| self.rows.iter().any(|row| row.contains(*line))).cloned());
        }
    }

    /// Asks that a panel about several names.
    fn in_panel(&self, asks: &BTreeMap<AskId, Ask>) -> Vec<AskId> {
        let is_named = |ask: &Ask| self.rows.iter().any(|row| row.contains(&format!(" {}  ", ask.handle)));
        asks.iter().filter(|(_, ask)| is_named(ask)).map(|(id, _)| *id).collect()
    }

    /// Whether every line of the action has been on a screen.
    pub(crate) fn is_read(&self, id: AskId, ask: &Ask) -> bool {
        let read = self.read.get(&id);
        let mut lines = ask.display.iter().flat_map(|field| &field.lines);
        lines.all(|line| read.is_some_and(|read| read.contains(line)))
    }

    /// Nothing on it counts any more.
    pub(crate) fn blank(&mut self) {
        let read = std::mem::take(&mut self.read);
        *self = Self { read, ..Self::default() };
    }

    pub(crate) fn text(&self) -> String {
        self.rows.join("\n")
    }
}

fn rows(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width).max(1);
    let row = |cells: &[askd_tui::ratatui::buffer::Cell]| {
        let row: String = cells.iter().map(|cell| cell.symbol()).collect();
        row.trim_end().to_owned()
    };
    buffer.content.chunks(width).map(row).collect()
}
