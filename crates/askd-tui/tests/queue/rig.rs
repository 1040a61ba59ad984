//! A queue on a virtual clock and a screen in memory.

use std::time::Duration;

use askd_tui::ratatui::buffer::Buffer;
use askd_tui::ratatui::layout::{Position, Rect};
use askd_tui::{Action, Key, Now, Place, Queue, Reply, Settings};
use askd_wire::{Ask, BulkAnswer, StreamEvent};

use crate::{samples, stream};

pub(crate) struct Rig {
    pub(crate) queue: Queue,
    pub(crate) now: Now,
    pub(crate) buffer: Buffer,
    pub(crate) cursor: Option<Position>,
}

impl Rig {
    pub(crate) fn new(width: u16, height: u16) -> Self {
        let place = Place { home: Some("/home/me".into()), host: Some("box".into()), ..Place::default() };
        let now = Now { tick: Duration::from_secs(1000), wall_ms: samples::WALL_MS };
        let mut rig = Self {
            queue: Queue::new(Settings { place, colour: true }),
            now,
            buffer: Buffer::empty(Rect::new(0, 0, width, height)),
            cursor: None,
        };
        rig.queue.set_sessions(vec![samples::session("fix the tests")]);
        rig
    }

    /// With these asks open, drawn, and everything live.
    pub(crate) fn with(width: u16, height: u16, asks: &[Ask]) -> Self {
        let mut rig = Self::new(width, height);
        rig.event(stream::snapshot(asks));
        rig.frame();
        rig.pass(500);
        rig
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.now.tick += Duration::from_millis(ms);
        self.now.wall_ms += i64::try_from(ms).unwrap();
    }

    pub(crate) fn event(&mut self, event: StreamEvent) -> Vec<Action> {
        self.queue.handle_event(event, self.now)
    }

    pub(crate) fn reply(&mut self, reply: Reply) -> Vec<Action> {
        self.queue.handle_reply(reply, self.now)
    }

    pub(crate) fn key(&mut self, key: Key) -> Vec<Action> {
        self.queue.handle_key(key, self.now)
    }

    pub(crate) fn press(&mut self, c: char) -> Vec<Action> {
        self.key(Key::Char(c))
    }

    pub(crate) fn type_in(&mut self, text: &str) -> Vec<Action> {
        text.chars().flat_map(|c| self.press(c)).collect()
    }

    /// A key, drawn, and time until everything is live.
    pub(crate) fn calmly(&mut self, key: Key) -> Vec<Action> {
        let mut actions = self.key(key);
        actions.extend(self.frame());
        self.pass(500);
        actions
    }

    /// Draws without telling that the frame was written.
    pub(crate) fn render(&mut self) {
        let area = self.buffer.area;
        self.cursor = self.queue.render(&mut self.buffer, area, self.now);
    }

    pub(crate) fn frame(&mut self) -> Vec<Action> {
        self.render();
        self.queue.on_screen(self.now)
    }

    pub(crate) fn resize(&mut self, width: u16, height: u16) {
        self.buffer = Buffer::empty(Rect::new(0, 0, width, height));
        self.frame();
    }

    /// The screen as it is after a frame.
    pub(crate) fn screen(&mut self) -> String {
        self.frame();
        self.shown()
    }

    /// The screen as it was drawn last.
    pub(crate) fn shown(&self) -> String {
        let area = self.buffer.area;
        let rows = (0..area.height).map(|y| {
            let mut row = String::new();
            let mut x = 0;
            while x < area.width {
                let symbol = self.buffer[(x, y)].symbol();
                row.push_str(symbol);
                // A wide character covers the next cell too.
                x += u16::try_from(unicode_width::UnicodeWidthStr::width(symbol).max(1)).unwrap();
            }
            row.trim_end().to_owned()
        });
        rows.collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn sees(&mut self, text: &str) -> bool {
        self.screen().contains(text)
    }
}

/// The answers among the actions, one for each ask.
pub(crate) fn answers(actions: &[Action]) -> Vec<BulkAnswer> {
    let mut answers = Vec::new();
    for action in actions {
        match action {
            Action::Answer(answer) => answers.push(answer.clone()),
            Action::Bulk(bulk) => answers.extend(bulk.iter().cloned()),
            _ => {}
        }
    }
    answers
}

/// Handles that were answered, with the decision: `k7f allow`.
pub(crate) fn decided(actions: &[Action]) -> Vec<String> {
    let one = |it: BulkAnswer| {
        let decision = if it.answer.decision == askd_wire::Decision::Allow { "allow" } else { "deny" };
        format!("{} {decision}", it.id.trim_start_matches("0193-"))
    };
    answers(actions).into_iter().map(one).collect()
}
