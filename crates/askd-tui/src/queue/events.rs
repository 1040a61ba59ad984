//! What the daemon's stream brings.

use std::collections::HashSet;
use std::time::Duration;

use askd_wire::{Ask, AskState, Health, StreamEvent};

use super::Queue;
use crate::action::{Action, Link};
use crate::item::Item;
use crate::notes::{About, Ended};
use crate::now::Now;
use crate::rows::Look;
use crate::words;

/// Asks that come closer together than this are one burst: the bell rings once.
const BURST: Duration = Duration::from_secs(1);
/// In a burst that does not end, it rings again after this.
const LONG_BURST: Duration = Duration::from_secs(10);
/// Columns of what is said about an ask elsewhere.
const ABOUT: usize = 80;

impl Queue {
    /// Takes one event of the stream.
    #[must_use]
    pub fn handle_event(&mut self, event: StreamEvent, now: Now) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            StreamEvent::Snapshot { asks, .. } => self.snapshot(asks, now, &mut actions),
            StreamEvent::Ask { what, ask, .. } => self.ask(&what, *ask, now, &mut actions),
            StreamEvent::Notice { text } => {
                self.notes.say(words::plain(&text), Look::Warn);
                actions.push(Action::ReadHealth);
            }
            StreamEvent::Gap { .. } => {
                self.notes.say("some events were missed; the list is complete again", Look::Quiet);
            }
            StreamEvent::Bye { restart: true } => self.link = Link::Down("the daemon restarts".to_owned()),
            StreamEvent::Bye { restart: false } => self.link = Link::Down("askd was stopped".to_owned()),
            StreamEvent::Waiting { .. } | StreamEvent::Woke => {}
        }
        self.settle(actions)
    }

    /// Takes a change of the way to the daemon.
    #[must_use]
    pub fn handle_link(&mut self, link: Link, now: Now) -> Vec<Action> {
        let mut actions = Vec::new();
        if link == Link::Up {
            actions.push(Action::ReadHealth);
        }
        if self.link != Link::Up && link == Link::Up {
            // What was not told while the way was down is not known to be true.
            self.guard.absorbed(now.tick);
        }
        self.link = link;
        self.settle(actions)
    }

    /// Takes the state of the daemon: the head says where nothing is asked, and that nothing can be recorded.
    pub fn handle_health(&mut self, health: &Health) {
        self.not_recorded = health.not_recorded.as_deref().map(words::one);
        self.skipping = health.skipping.text().map(|text| words::one(&text));
    }

    fn snapshot(&mut self, asks: Vec<Ask>, now: Now, actions: &mut Vec<Action>) {
        let ids: HashSet<&str> = asks.iter().map(|ask| ask.id.as_str()).collect();
        let gone = self.arrival.iter().filter(|id| !ids.contains(id.as_str()));
        actions.extend(gone.map(|id| Action::Look { id: id.clone() }));
        let first = !std::mem::replace(&mut self.has_snapshot, true);
        for ask in asks {
            if self.items.contains_key(&ask.id) {
                self.update(ask, now);
            } else if ask.state == AskState::Open {
                self.arrive(ask, !first, now, actions);
            }
        }
    }

    fn ask(&mut self, what: &str, ask: Ask, now: Now, actions: &mut Vec<Action>) {
        if self.items.contains_key(&ask.id) {
            return self.update(ask, now);
        }
        if self.notes.ended(&ask.id).is_some() {
            return self.correct(&ask);
        }
        match (ask.state, what) {
            (AskState::Open, _) => self.arrive(ask, true, now, actions),
            // Over before it could be shown: the queue was full, or nobody can be asked.
            (AskState::Settled, "asked") => self.end(&Item::new(ask.clone(), now), &ask),
            (AskState::Settled, _) => {}
        }
    }

    fn arrive(&mut self, ask: Ask, is_news: bool, now: Now, actions: &mut Vec<Action>) {
        if !self.around.knows(&ask) {
            actions.push(Action::ReadSessions);
        }
        let id = ask.id.clone();
        // The first to wait is news however soon it comes after another.
        if is_news && self.waiting() == 0 {
            self.last_arrival = None;
        }
        self.arrival.push(id.clone());
        self.items.insert(id.clone(), Item::new(ask, now));
        if is_news {
            let text = self.about(&id);
            self.alert(text, now, actions);
        }
    }

    /// Rings once for a burst.
    pub(super) fn alert(&mut self, text: String, now: Now, actions: &mut Vec<Action>) {
        let quiet =
            |since: Option<Duration>, span| since.is_none_or(|at| now.tick.saturating_sub(at) >= span);
        if quiet(self.last_arrival, BURST) || quiet(self.last_alert, LONG_BURST) {
            self.last_alert = Some(now.tick);
            actions.push(Action::Alert(text));
        }
        self.last_arrival = Some(now.tick);
    }

    /// Takes what is now true of an ask that is here.
    pub(super) fn update(&mut self, ask: Ask, now: Now) {
        if ask.state == AskState::Settled {
            if self.items.get(&ask.id).is_some_and(|item| item.answering.is_some()) {
                self.crossing.insert(ask.id.clone(), Box::new(ask));
            } else if let Some(item) = self.remove(&ask.id) {
                self.end(&item, &ask);
            }
            return;
        }
        let Some(item) = self.items.get_mut(&ask.id) else { return };
        let was_handed_back = item.is_handed_back();
        item.update(ask, now);
        if !was_handed_back && item.is_handed_back() {
            item.snoozed_until_ms = None;
            let handle = item.ask.handle.clone();
            let text = words::elsewhere(&item.ask, None).unwrap_or_default();
            let about = item.about(ABOUT);
            self.note(&handle, about, format!("({text})"), Look::Quiet);
        }
    }

    /// The one line that an ask leaves which ended without an answer from here.
    pub(super) fn end(&mut self, item: &Item, ask: &Ask) {
        let about = item.about(ABOUT);
        if let Some(outcome) = &ask.outcome {
            self.note(&ask.handle, about.clone(), words::ended(outcome), Look::Quiet);
        }
        self.forget(ask, about);
    }

    /// An ask that is over is remembered by its name, for corrections.
    pub(super) fn forget(&mut self, ask: &Ask, about: About) {
        let ended = Ended { handle: ask.handle.clone(), about: about.clone(), delivery: ask.delivery };
        self.notes.remember(&ask.id, ended);
        if let Some(text) = words::correction(ask.delivery) {
            self.note(&ask.handle, about, text.to_owned(), Look::Warn);
        }
    }

    /// What was told of an ask turned out otherwise.
    fn correct(&mut self, ask: &Ask) {
        let Some(ended) = self.notes.ended(&ask.id) else { return };
        if std::mem::replace(&mut ended.delivery, ask.delivery) == ask.delivery {
            return;
        }
        let (handle, about) = (ended.handle.clone(), ended.about.clone());
        if let Some(text) = words::correction(ask.delivery) {
            self.note(&handle, about, text.to_owned(), Look::Warn);
        }
    }
}
