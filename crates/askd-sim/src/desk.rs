//! The shipped queue in front of a person: its program's loop, the keys that are under way, and what must be true of
//! every answer that comes out of it.
//!
//! The program does what the widget asks of it: it takes events, then keys, draws, and hands in whatever was typed until
//! the frame was written before it says so. Events and keys gather while it is busy or the machine sleeps.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use askd_core::command::{Answer, Command, Reply};
use askd_core::event::Event;
use askd_core::id::StreamId;
use askd_core::{AskId, Decision};
use askd_journal::Positioned;
use askd_tui::ratatui::buffer::Buffer;
use askd_tui::ratatui::layout::Rect;
use askd_tui::{ALLOW_AFTER, Action, HELD_FOR, Key, Link, Now, Queue, Settings};
use askd_wire::{Ask, BulkAnswer, Class, StreamEvent, SurfaceReport};

use crate::flaw::Flaw;
use crate::glass::Glass;
use crate::shape;
use crate::story::tell;
use crate::transport::Back;
use crate::world::{Happening, World};

/// Something that the program has not taken yet.
pub(crate) enum Waits {
    Event(Box<StreamEvent>),
    Link(Link),
    Reply(Box<askd_tui::Reply>),
}

/// One person's queue.
pub(crate) struct Desk {
    queue: Queue,
    buffer: Buffer,
    news: VecDeque<Waits>,
    /// Keys that were pressed and not read, with the time.
    keys: VecDeque<(u64, Key)>,
    busy: bool,
    glass: Glass,
    /// Every ask that it was told of, as it was told.
    asks: BTreeMap<AskId, Ask>,
    /// What was on the screen when the first of two keys was pressed.
    frozen: BTreeSet<AskId>,
    /// The ask that words or an option are for.
    meant: Option<AskId>,
    /// The key that answered last, and when.
    answered: Option<(Key, u64)>,
}

impl Desk {
    pub(crate) fn new(size: (u16, u16)) -> Self {
        Self {
            queue: Queue::new(Settings::default()),
            buffer: Buffer::empty(Rect::new(0, 0, size.0, size.1)),
            news: VecDeque::new(),
            keys: VecDeque::new(),
            busy: false,
            glass: Glass::default(),
            asks: BTreeMap::new(),
            frozen: BTreeSet::new(),
            meant: None,
            answered: None,
        }
    }

    /// Asks that it would still let somebody answer.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.waiting()
    }
}

impl World {
    fn desk(&mut self, s: usize) -> Option<&mut Desk> {
        self.surfaces[s].desk.as_deref_mut()
    }

    fn desk_now(&self) -> Now {
        Now { tick: Duration::from_millis(self.clock.now), wall_ms: self.clock.wall_ms() }
    }

    /// Something for the program of this queue.
    pub(crate) fn desk_gets(&mut self, s: usize, what: Waits) {
        if let Some(desk) = self.desk(s) {
            desk.news.push_back(what);
            self.plan_loop(s);
        }
    }

    fn plan_loop(&mut self, s: usize) {
        let Some(desk) = self.desk(s).filter(|desk| !desk.busy) else { return };
        desk.busy = true;
        let after = if self.dice.percent(80) { self.dice.between(0, 30) } else { self.dice.span(1, 2_000) };
        self.soon(after, Happening::DeskLoop { surface: s });
    }

    /// The daemon's stream begins.
    pub(crate) fn desk_snapshot(&mut self, s: usize, position: u64) {
        let ids: Vec<AskId> = self.surfaces[s].cards.keys().copied().collect();
        let mut asks = Vec::new();
        for id in ids {
            if let Some(file) = self.ledger.files.get(&id) {
                let back = self.surfaces[s].cards[&id].handed_back;
                let ask = shape::of(&file.ask, file.handed_back.as_deref().filter(|_| back));
                asks.push((id, ask));
            }
        }
        if let Some(desk) = self.desk(s) {
            desk.asks.extend(asks.iter().cloned());
        }
        let asks = asks.into_iter().map(|(_, ask)| ask).collect();
        self.desk_gets(s, Waits::Link(Link::Up));
        self.desk_gets(s, Waits::Event(Box::new(StreamEvent::Snapshot { position, asks })));
    }

    /// One entry of the daemon's stream.
    pub(crate) fn desk_hears(&mut self, s: usize, entry: &Positioned) {
        let StreamId::Ask(id) = entry.stream else { return };
        let Some(desk) = self.desk(s) else { return };
        match &entry.entry.event {
            Event::Asked { ask } => {
                desk.asks.insert(id, shape::of(ask, None));
            }
            other => {
                let Some(ask) = desk.asks.get_mut(&id) else { return };
                match other {
                    Event::HandedBack { at, .. } => {
                        ask.requester.link = "handed_back".to_owned();
                        ask.requester.at = Some(at.clone());
                    }
                    Event::Settled { outcome } | Event::Withdrawn { outcome } => shape::settle(ask, outcome),
                    Event::Detached => ask.requester.link = "detached".to_owned(),
                    Event::Reattached => ask.requester.link = "attached".to_owned(),
                    _ => return,
                }
            }
        }
        let ask = Box::new(desk.asks[&id].clone());
        let what = entry.entry.event.name().to_owned();
        self.desk_gets(s, Waits::Event(Box::new(StreamEvent::Ask { position: entry.position, what, ask })));
    }

    /// What became of an answer of this queue.
    pub(crate) fn desk_answered(&mut self, s: usize, id: AskId, back: &Back) {
        if self.surfaces[s].desk.is_none() {
            return;
        }
        let now = self.ledger.files.get(&id).map(shape::of_file);
        let reply = match (back, now) {
            (Back::Reply(Ok(Reply::Settled(_))), Some(ask)) => askd_tui::Reply::Answered(Box::new(ask)),
            (Back::Reply(Err(refusal)), ask) => {
                let problem = Box::new(shape::problem(refusal, ask));
                askd_tui::Reply::Refused { id: id.to_string(), problem }
            }
            _ => askd_tui::Reply::Lost { id: id.to_string(), why: "no reply".to_owned() },
        };
        self.desk_gets(s, Waits::Reply(Box::new(reply)));
    }

    /// The program takes what gathered and draws.
    pub(crate) fn desk_loop(&mut self, s: usize) {
        let now = self.desk_now();
        let news = self.desk(s).map(|desk| std::mem::take(&mut desk.news)).unwrap_or_default();
        for what in news {
            let Some(desk) = self.desk(s) else { return };
            let actions = match what {
                Waits::Event(event) => desk.queue.handle_event(*event, now),
                Waits::Link(link) => desk.queue.handle_link(link, now),
                Waits::Reply(reply) => desk.queue.handle_reply(*reply, now),
            };
            self.desk_does(s, actions, None);
        }
        self.desk_reads(s);
        let Some(desk) = self.desk(s) else { return };
        let actions = desk.queue.handle_timeout(now);
        let area = desk.buffer.area;
        desk.buffer.reset();
        desk.queue.render(&mut desk.buffer, area, now);
        self.desk_does(s, actions, None);
        let after = if self.dice.percent(80) { self.dice.between(0, 5) } else { self.dice.between(5, 400) };
        self.soon(after, Happening::DeskWritten { surface: s });
    }

    /// The frame is out: first comes what was typed until now.
    pub(crate) fn desk_written(&mut self, s: usize) {
        let (now, at) = (self.desk_now(), self.clock.now);
        let early = self.flaw == Some(Flaw::ShowsEarly);
        let mut actions = match self.desk(s) {
            Some(desk) if early => desk.queue.on_screen(now),
            _ => Vec::new(),
        };
        let typed = self.desk_reads(s);
        let Some(desk) = self.desk(s) else { return };
        desk.busy = false;
        if !early {
            actions = desk.queue.on_screen(now);
        }
        desk.glass.written(&desk.buffer, &desk.asks, at);
        let again = typed || !desk.news.is_empty();
        self.desk_does(s, actions, None);
        if again {
            self.plan_loop(s);
        }
    }

    /// Hands in every key that was pressed by now.
    fn desk_reads(&mut self, s: usize) -> bool {
        let mut now = self.desk_now();
        if self.flaw == Some(Flaw::FastKeys) {
            now.tick += Duration::from_millis(500);
        }
        let keys = self.desk(s).map(|desk| std::mem::take(&mut desk.keys)).unwrap_or_default();
        let any = !keys.is_empty();
        for (at, key) in keys {
            let Some(desk) = self.desk(s) else { break };
            let was_typing = desk.queue.is_typing();
            // A key that is held is not held any more when another one is pressed.
            desk.answered = desk.answered.take().filter(|(held, _)| *held == key);
            let actions = desk.queue.handle_key(key.clone(), now);
            // The first of two keys is about what is in focus and in the list, not about a panel.
            if !was_typing && desk.glass.focus.is_some() {
                match key {
                    Key::Char('a' | 'd') => desk.frozen = desk.glass.named.clone(),
                    Key::Char('m' | 'A') => desk.meant = desk.glass.focus,
                    _ => {}
                }
            }
            self.desk_does(s, actions, Some((at, key)));
        }
        any
    }

    fn desk_does(&mut self, s: usize, actions: Vec<Action>, by: Option<(u64, Key)>) {
        for action in actions {
            match action {
                Action::Answer(answer) => self.desk_answers(s, vec![answer], by.as_ref(), false),
                Action::Bulk(answers) => {
                    self.counts.add("queue answered in bulk");
                    self.desk_answers(s, answers, by.as_ref(), true);
                }
                Action::Report(report) => {
                    let surface = self.surfaces[s].name.clone();
                    let command = match report {
                        SurfaceReport::Shown { ask } => {
                            ask.parse().ok().map(|ask| Command::Shown { ask, surface, remote: false })
                        }
                        SurfaceReport::Failed { ask, reason } => {
                            ask.parse().ok().map(|ask| Command::SurfaceFailed { ask, surface, reason })
                        }
                        // A queue is no remote surface.
                        SurfaceReport::Polled
                        | SurfaceReport::Keep { .. }
                        | SurfaceReport::Trouble { .. } => None,
                    };
                    command.into_iter().for_each(|command| self.act(s, command));
                }
                Action::Look { id } => {
                    let known = id.parse().ok().and_then(|id: AskId| self.ledger.files.get(&id));
                    let ask = known.map(|file| Box::new(shape::of_file(file)));
                    self.desk_gets(s, Waits::Reply(Box::new(askd_tui::Reply::Seen { id, ask })));
                }
                Action::TakeBack { id } => {
                    if let Ok(ask) = id.parse() {
                        self.counts.add("queue took a late answer back");
                        self.act(s, Command::RevokeLate { ask, by: format!("person {s}") });
                    }
                }
                _ => {}
            }
        }
    }

    fn desk_answers(&mut self, s: usize, answers: Vec<BulkAnswer>, by: Option<&(u64, Key)>, bulk: bool) {
        for given in answers {
            let Ok(id) = given.id.parse::<AskId>() else {
                return self.broken(&[], format!("queue {s} answers {:?}", given.id));
            };
            if let Err(why) = self.judge_queue(s, id, &given, by, bulk) {
                let screen = self.desk(s).map(|desk| desk.glass.text()).unwrap_or_default();
                let key = by.map(|(at, key)| format!("{key:?} of {at}"));
                return self.broken(&[id], format!("queue {s}, key {key:?}: {why}\n{screen}"));
            }
            self.counts.add("queue answered");
            let decision = match given.answer.decision {
                askd_wire::Decision::Allow => Decision::Allow,
                askd_wire::Decision::Deny => Decision::Deny,
            };
            let Ok(digest) = given.answer.digest.parse() else { return };
            let answer = Answer {
                ask: id,
                digest,
                decision,
                option: given.answer.option,
                message: given.answer.message,
                stop: given.answer.stop,
                surface: self.surfaces[s].name.clone(),
                remote: false,
                by: Some(format!("person {s}")),
                refused: None,
            };
            self.say(s, answer);
        }
        let at = self.clock.now;
        if let (Some(desk), Some((_, key))) = (self.surfaces[s].desk.as_deref_mut(), by) {
            desk.answered = Some((key.clone(), at));
        }
    }

    /// An answer is for what stood on the screen when its key was pressed, armed and complete.
    fn judge_queue(
        &self,
        s: usize,
        id: AskId,
        given: &BulkAnswer,
        by: Option<&(u64, Key)>,
        bulk: bool,
    ) -> Result<(), String> {
        let desk = self.surfaces[s].desk.as_deref().ok_or("there is no queue")?;
        let (_, key) = by.ok_or("no key was pressed")?;
        let must = |holds: bool, why: &str| if holds { Ok(()) } else { Err(why.to_owned()) };
        let ask = desk.asks.get(&id).ok_or("it was never told of the ask")?;
        let file = self.ledger.files.get(&id).ok_or("there is no such ask")?;
        must(given.answer.digest == file.ask.digest.to_string(), "the digest is another one")?;
        let (now, glass) = (self.clock.now, &desk.glass);
        let held = desk.answered.as_ref().filter(|(held, _)| held == key);
        let held = held.is_some_and(|(_, at)| now.saturating_sub(*at) < ms(HELD_FOR));
        must(!held, "the key may be the one that answered before, still down")?;
        if bulk {
            must(desk.frozen.contains(&id), "it was not on the screen at the first key")?;
            must(ask.attendance == askd_wire::Attendance::Background, "it is in the foreground")?;
        } else {
            match key {
                Key::Char('y' | 'n') if desk.meant.is_none() || glass.focus.is_some() => {
                    must(glass.focus == Some(id), "another ask was on the screen")?;
                }
                _ => must(desk.meant == Some(id), "it was begun for another ask")?,
            }
        }
        if given.answer.decision == askd_wire::Decision::Allow {
            must(
                now.saturating_sub(glass.since) >= ms(ALLOW_AFTER),
                "it had not been there for long enough",
            )?;
            must(glass.is_read(id, ask), "not all of it had been on the screen")?;
            must(!(bulk && ask.class == Class::Safety), "a safety ask among others")?;
            must(given.answer.message.is_none(), "words that go with a deny")?;
        }
        Ok(())
    }

    /// A person presses keys, with what is on the screen before their eyes.
    pub(crate) fn desk_press(&mut self, s: usize, mut after: u64, keys: Vec<Key>, pause: u64) {
        for key in keys {
            self.soon(after, Happening::Key { surface: s, key });
            after += pause;
        }
    }

    pub(crate) fn key(&mut self, s: usize, key: Key) {
        let at = self.clock.now;
        if let Some(desk) = self.desk(s) {
            desk.keys.push_back((at, key.clone()));
            tell!(self, None, "queue {s}: {key:?}");
            self.plan_loop(s);
        }
    }

    /// Somebody sits down at the queue, types something, and looks again later.
    pub(crate) fn desk_person(&mut self, s: usize) {
        if !self.chaos {
            return;
        }
        let after = self.dice.span(500, 60_000);
        self.soon(after, Happening::DeskPerson { surface: s });
        if self.desk(s).is_none_or(|desk| !desk.queue.wants_keys()) {
            return;
        }
        let chars = |text: &str| text.chars().map(Key::Char).collect::<Vec<_>>();
        let slow = self.dice.between(300, 1_500);
        let (keys, pause) = match self.dice.below(100) {
            0..=29 => (chars("y"), 0),
            30..=44 => (chars("n"), 0),
            45..=52 => (chars("  y"), slow),
            53..=57 => (vec![Key::Down, Key::Char('y')], slow),
            58..=62 => (chars("ay"), slow),
            63..=67 => (chars("dy"), slow),
            68..=71 => (chars("A1"), slow),
            72..=75 => {
                let mut keys = chars("mnot this folder");
                keys.push(Key::Enter);
                (keys, 40)
            }
            // Typed in one go, whatever comes up in between.
            76..=80 => (chars("nnn"), 1),
            81..=84 => (chars("yyyy"), slow / 3),
            85..=88 => (vec![Key::Down, Key::Char('n'), Key::Up, Key::Char('n')], 5),
            89..=91 => (vec![Key::Paste("y\nn\n".to_owned()), Key::Char('y')], slow),
            92..=93 => (chars("s"), 0),
            94..=95 => (chars("u"), 0),
            96 => (vec![Key::Esc, Key::Char('S')], slow),
            _ => {
                // Held down: the first repetition comes late, the others fast.
                let key = if self.dice.percent(50) { 'n' } else { 'y' };
                self.counts.add("queue key held");
                self.desk_press(s, 0, chars(&key.to_string()), 0);
                self.desk_press(s, 500, vec![Key::Char(key); 20], 33);
                return;
            }
        };
        self.desk_press(s, 0, keys, pause);
        // Panels are left again.
        if self.dice.percent(50) {
            self.desk_press(s, 8_000, vec![Key::Esc], 0);
        }
    }

    /// The way to the daemon is gone.
    pub(crate) fn desk_down(&mut self, s: usize) {
        self.desk_gets(s, Waits::Link(Link::Down("the daemon is gone".to_owned())));
    }

    /// The terminal was lost and comes back: nothing on it counts as seen.
    pub(crate) fn desk_blind(&mut self, s: usize) {
        if let Some(desk) = self.desk(s) {
            desk.queue.blind();
            desk.glass.blank();
            self.counts.add("queue lost its terminal");
            self.plan_loop(s);
        }
    }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
