//! A program with an input line of its own that embeds the queue: a chat with an agent that is played here, so that no
//! daemon is needed. Type something and press enter; the agent then wants to run something. Go on typing: when its ask
//! comes, your draft is stashed, and it is back, cursor included, when nothing waits any more. Ctrl-C leaves.
//!
//! What a host does is marked with "host:".

use std::error::Error;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use askd_tui::ratatui::backend::CrosstermBackend;
use askd_tui::ratatui::crossterm::event::{self, Event, KeyModifiers};
use askd_tui::ratatui::crossterm::execute;
use askd_tui::ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use askd_tui::ratatui::layout::{Position, Rect};
use askd_tui::ratatui::text::Line;
use askd_tui::ratatui::widgets::Paragraph;
use askd_tui::ratatui::{Frame, Terminal};
use askd_tui::{Action, Draft, Key, Now, Queue, Reply, Settings};
use askd_wire::{Ask, BulkAnswer, Decision, StreamEvent};
use serde_json::json;

/// How long the agent thinks before it asks.
const THINKING: Duration = Duration::from_millis(1500);
/// How often the host looks for events; a real one waits for its channel and for keys at once.
const BEAT: Duration = Duration::from_millis(30);

struct Host {
    queue: Queue,
    /// host: its own input line.
    line: Draft,
    chat: Vec<String>,
    started: Instant,
    asked: u32,
    open: Vec<Ask>,
    to_queue: Sender<StreamEvent>,
    events: Receiver<StreamEvent>,
    leaving: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let (to_queue, events) = mpsc::channel();
    let mut host = Host {
        queue: Queue::new(Settings { colour: std::env::var_os("NO_COLOR").is_none(), ..Settings::default() }),
        line: Draft::default(),
        chat: vec!["agent: what shall I do?".to_owned()],
        started: Instant::now(),
        asked: 0,
        open: Vec::new(),
        to_queue,
        events,
        leaving: false,
    };
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)?;
    let done = host.run();
    execute!(io::stdout(), LeaveAlternateScreen)?;
    disable_raw_mode()?;
    done
}

impl Host {
    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { tick: self.started.elapsed(), wall_ms: i64::try_from(wall.as_millis()).unwrap_or(0) }
    }

    fn run(&mut self) -> Result<(), Box<dyn Error>> {
        let mut terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        let actions =
            self.queue.handle_event(StreamEvent::Snapshot { position: 0, asks: Vec::new() }, self.now());
        self.act(actions);
        while !self.leaving {
            terminal.draw(|frame| self.draw(frame))?;
            // host: what was typed until the frame was out comes before the queue is told that it is on the screen.
            while event::poll(Duration::ZERO)? {
                let typed = event::read()?;
                self.input(&typed);
            }
            let actions = self.queue.on_screen(self.now());
            self.act(actions);
            let wait = self.queue.poll_timeout(self.now()).map_or(BEAT, |wait| wait.min(BEAT));
            if event::poll(wait)? {
                let typed = event::read()?;
                self.input(&typed);
            }
            while let Ok(event) = self.events.try_recv() {
                let actions = self.queue.handle_event(event, self.now());
                self.act(actions);
            }
            let actions = self.queue.handle_timeout(self.now());
            self.act(actions);
        }
        Ok(())
    }

    /// host: the chat, and below it the queue while asks wait, else the input line.
    fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let below = if self.queue.wants_keys() { area.height * 2 / 3 } else { 1 };
        let chat = Rect { height: area.height - below, ..area };
        let bottom = Rect { y: area.y + chat.height, height: below, ..area };
        let skip = self.chat.len().saturating_sub(usize::from(chat.height));
        let lines: Vec<Line<'_>> = self.chat[skip..].iter().map(|line| Line::raw(line.as_str())).collect();
        frame.render_widget(Paragraph::new(lines), chat);
        if self.queue.wants_keys() {
            let now = self.now();
            self.queue.draw(frame, bottom, now);
        } else {
            frame.render_widget(Line::raw(format!("> {}", self.line.text)), bottom);
            let column = self.line.text[..self.line.cursor].chars().count();
            let column = u16::try_from(column + 2).unwrap_or(u16::MAX);
            frame.set_cursor_position(Position { x: bottom.x + column.min(area.width - 1), y: bottom.y });
        }
    }

    fn input(&mut self, typed: &Event) {
        if let Event::Key(key) = typed
            && key.modifiers == KeyModifiers::CONTROL
            && key.code == event::KeyCode::Char('c')
        {
            self.leaving = true;
            return;
        }
        let Some(key) = Key::from_event(typed) else { return };
        if self.queue.wants_keys() {
            let actions = self.queue.handle_key(key, self.now());
            self.act(actions);
        } else {
            self.edit(key);
        }
    }

    /// host: its own line, as simple as can be.
    fn edit(&mut self, key: Key) {
        let Draft { text, cursor } = &mut self.line;
        let before = text[..*cursor].chars().next_back().map_or(0, char::len_utf8);
        let after = text[*cursor..].chars().next().map_or(0, char::len_utf8);
        match key {
            Key::Char(c) => {
                text.insert(*cursor, c);
                *cursor += c.len_utf8();
            }
            Key::Backspace if before > 0 => {
                *cursor -= before;
                text.remove(*cursor);
            }
            Key::Left => *cursor -= before,
            Key::Right => *cursor += after,
            Key::Enter if !text.is_empty() => {
                let said = std::mem::take(&mut self.line).text;
                self.chat.push(format!("you: {said}"));
                self.think(&said);
            }
            _ => {}
        }
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                // host: hand the draft over, take it back.
                Action::TakeKeys => {
                    let draft = std::mem::take(&mut self.line);
                    let now = self.now();
                    self.queue.stash(draft, now);
                }
                Action::GiveKeys(draft) => self.line = draft.unwrap_or_default(),
                Action::Answer(answer) => self.settle(&answer),
                Action::Bulk(answers) => answers.iter().for_each(|answer| self.settle(answer)),
                Action::Quit => self.leaving = true,
                // A real host tells its daemon, rings, and so on.
                _ => {}
            }
        }
    }

    /// The daemon's part: the first answer settles.
    fn settle(&mut self, given: &BulkAnswer) {
        let Some(at) = self.open.iter().position(|ask| ask.id == given.id) else { return };
        let ask = self.open.remove(at);
        let outcome = if given.answer.decision == Decision::Allow { "allowed" } else { "denied" };
        let Some(done) = settled(&ask, outcome) else { return };
        self.chat.push(format!("agent: that was {outcome}"));
        let actions = self.queue.handle_reply(Reply::Answered(Box::new(done)), self.now());
        self.act(actions);
    }

    /// The agent's part: it wants to run what was said.
    fn think(&mut self, said: &str) {
        self.asked += 1;
        let Some(ask) = ask(self.asked, said) else { return };
        self.open.push(ask.clone());
        let events = self.to_queue.clone();
        std::thread::spawn(move || {
            std::thread::sleep(THINKING);
            let _ =
                events.send(StreamEvent::Ask { position: 1, what: "asked".to_owned(), ask: Box::new(ask) });
        });
    }
}

/// An ask as the daemon would show it: what is displayed was made safe by askd-text.
fn ask(number: u32, command: &str) -> Option<Ask> {
    let input = json!({"command": command}).to_string();
    let action = askd_text::Action { tool: "Bash", input: Some(&input), ..askd_text::Action::default() };
    let display: Vec<_> = askd_text::display(&action)
        .into_iter()
        .map(|it| json!({"label": it.label, "lines": it.lines, "marked": it.marked, "complete": it.complete}))
        .collect();
    let text = json!({
        "id": format!("ask-{number}"), "handle": format!("a{number}"), "state": "open",
        "digest": format!("sha256:{number}"), "class": "tool", "attendance": "foreground",
        "action": {"tool": "Bash", "input": {"command": command}}, "display": display,
        "lineage": {"agent": "agent", "session": "chat", "root": "chat"},
        "options": [
            {"id": "allow_once", "label": "Allow once", "kind": "allow_once"},
            {"id": "reject_once", "label": "Deny", "kind": "reject_once"},
        ],
        "asked_at": "2026-11-30T08:00:00.000Z", "deadline": null, "default": null, "gives_up_at": null,
        "requester": {"link": "attached", "kind": "library"}, "outcome": null, "delivery": "none",
    });
    serde_json::from_str(&text.to_string()).ok()
}

fn settled(ask: &Ask, outcome: &str) -> Option<Ask> {
    let mut done = ask.clone();
    done.state = askd_wire::AskState::Settled;
    let outcome = json!({
        "outcome": outcome, "cause": "person", "source": "direct", "by": "you",
        "settled_at": "2026-11-30T08:00:01.000Z", "verdict": "none", "text": format!("{outcome} by you"),
    });
    done.outcome = Some(serde_json::from_value(outcome).ok()?);
    Some(done)
}
