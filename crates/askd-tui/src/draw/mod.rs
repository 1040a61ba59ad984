//! The queue on a screen. What a frame has on it is kept until it is known to be written.

mod canvas;
mod card;
mod foot;
mod help;
mod list;
mod panels;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::action::Link;
use crate::now::Now;
use crate::queue::{Mode, Queue, Screen};
use crate::rows::{Look, Row, width};

use canvas::Canvas;

/// Below this nothing can be read, so nothing can be answered.
const LEAST_WIDTH: u16 = 40;
const LEAST_HEIGHT: u16 = 10;

impl Queue {
    /// Draws the queue into an area of a frame, and sets the cursor while a line is typed. Call
    /// [`on_screen`](Self::on_screen) when the frame has been written.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, now: Now) {
        let cursor = self.render(frame.buffer_mut(), area, now);
        if let Some(position) = cursor {
            frame.set_cursor_position(position);
        }
    }

    /// The same into a buffer; gives the place of the cursor while a line is typed.
    pub fn render(&mut self, buffer: &mut Buffer, area: Rect, now: Now) -> Option<Position> {
        let mut screen = Screen::default();
        let faded = self.link != Link::Up;
        let mut canvas = Canvas::new(buffer, area, self.settings.colour, faded);
        let cursor = if canvas.area.width < LEAST_WIDTH || canvas.area.height < LEAST_HEIGHT {
            self.too_small(&mut canvas);
            screen.too_small = true;
            None
        } else {
            self.whole(&mut canvas, &mut screen, now)
        };
        self.staged = Some(screen);
        cursor
    }

    fn too_small(&self, canvas: &mut Canvas<'_>) {
        let text = match self.waiting() {
            0 => "askd".to_owned(),
            n => format!("askd: {n} waiting"),
        };
        canvas.put(0, &Row::of(text, Look::Strong));
        canvas.put(1, &Row::of(format!("needs {LEAST_WIDTH}×{LEAST_HEIGHT}"), Look::Quiet));
        if self.is_typing() {
            canvas.put(2, &Row::of("nothing is sent", Look::Quiet));
        }
    }

    fn whole(&mut self, canvas: &mut Canvas<'_>, screen: &mut Screen, now: Now) -> Option<Position> {
        self.header(canvas);
        match self.mode {
            Mode::Help(_) | Mode::Options(_) | Mode::Bulk(_) | Mode::Output { .. } => {
                self.panel(canvas, screen, now);
                None
            }
            Mode::List | Mode::Details | Mode::Line(_) => {
                let foot = self.foot(canvas, now);
                let body = 1..usize::from(canvas.area.height) - foot.height;
                if self.focus.is_some() {
                    let rest = if matches!(self.mode, Mode::Details) {
                        body
                    } else {
                        let height = self.list_height(body.len(), canvas, now);
                        let below = self.list(canvas, body.start..body.start + height, screen, now);
                        below..body.end
                    };
                    self.card(canvas, rest, screen, now);
                } else {
                    self.nothing(canvas, body);
                }
                foot.cursor
            }
        }
    }

    /// How many wait, and what else is to be known of the whole.
    fn header(&self, canvas: &mut Canvas<'_>) {
        let waiting = match self.waiting() {
            0 if !self.has_snapshot => String::new(),
            0 => "nothing waits".to_owned(),
            n => format!("{n} waiting"),
        };
        let look = if self.waiting() == 0 { Look::Quiet } else { Look::Strong };
        let mut left = Row::of(format!(" {waiting}"), look);
        let snoozed = self.items.values().filter(|item| item.snoozed_until_ms.is_some()).count();
        if snoozed > 0 {
            left.push(format!(" · {snoozed} snoozed"), Look::Quiet);
        }
        let unrecorded = self.not_recorded.as_ref().map(|why| format!("nothing can be recorded: {why}"));
        for told in unrecorded.iter().chain(&self.skipping) {
            let dot = if waiting.is_empty() { "" } else { " · " };
            let room = canvas.columns().saturating_sub(left.width() + dot.len());
            left.push(format!("{dot}{}", askd_text::cut(told, room)), Look::Danger);
        }
        let answering = self.items.values().filter(|item| item.answering.is_some()).count();
        if answering > 0 {
            left.push(format!(" · {answering} being answered"), Look::Quiet);
        }
        let handed_back = self.items.values().filter(|item| item.is_handed_back()).count();
        if handed_back > 0 {
            left.push(format!(" · {handed_back} in the agent's own prompt"), Look::Quiet);
        }
        canvas.put(0, &left);
        let right = match &self.link {
            Link::Down(why) => {
                let room = canvas.columns().saturating_sub(left.width() + 3);
                Row::of(askd_text::cut(&format!("offline: {}", crate::words::one(why)), room), Look::Warn)
            }
            Link::Up => match self.place_in_list() {
                Some((at, of)) => Row::of(format!("{at} of {of}"), Look::Quiet),
                None => Row::of("askd", Look::Quiet),
            },
        };
        let x = canvas.columns().saturating_sub(right.width() + 1);
        if x > left.width() + 1 {
            canvas.put_at(x, 0, &right, right.width());
        }
    }

    /// At most a third of the screen, less where the ask in focus needs it: two rows, or none.
    fn list_height(&mut self, body: usize, canvas: &Canvas<'_>, now: Now) -> usize {
        let most = usize::from(canvas.area.height).saturating_sub(6) / 3;
        let (wanted, least) = self.card_heights(canvas, now);
        body.saturating_sub(wanted).min(most).max(body.saturating_sub(least).min(2))
    }

    fn place_in_list(&self) -> Option<(usize, usize)> {
        let focus = self.focus.as_ref()?;
        let at = self.listed.iter().position(|id| id == focus)?;
        (self.listed.len() > 1).then_some((at + 1, self.listed.len()))
    }

    fn nothing(&self, canvas: &mut Canvas<'_>, body: std::ops::Range<usize>) {
        let text = if self.link == Link::Up && self.has_snapshot {
            "no open asks"
        } else {
            "waiting for the daemon"
        };
        let middle = body.start + body.len() / 2;
        let (why, look) = match &self.skipping {
            Some(_) => ("tool calls are allowed unasked where permissions are skipped", Look::Danger),
            None => ("they appear here as agents ask", Look::Quiet),
        };
        for (y, text, look) in [(middle.saturating_sub(1), text, Look::Plain), (middle, why, look)] {
            let x = canvas.columns().saturating_sub(width(text)) / 2;
            canvas.put_at(x, y, &Row::of(text, look), width(text));
        }
    }
}
