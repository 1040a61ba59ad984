//! The queue: which asks there are, which one is in focus, what is open around it. A state machine without I/O or clock.

mod answer;
mod bulk;
mod events;
mod keys;
mod options;
mod replies;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use askd_wire::{Ask, SessionView};

use crate::action::{Action, Link, Settings};
use crate::around::Around;
use crate::editor::{Draft, Editor};
use crate::guard::{Guard, Target};
use crate::item::Item;
use crate::notes::{About, Note, Notes};
use crate::now::Now;
use crate::pager::Pager;
use crate::rows::Look;
use crate::words;

pub(crate) use bulk::{Bulk, verb};
pub(crate) use options::Options;

/// How long an ask is hidden by a snooze, at most.
pub const SNOOZE: Duration = Duration::from_secs(300);
/// A hidden ask comes back this long before it is lost.
pub const BACK_BEFORE: Duration = Duration::from_secs(60);

/// The prompt queue.
///
/// The host calls [`handle_event`](Self::handle_event) for what the daemon's stream brings,
/// [`handle_key`](Self::handle_key) for input, [`draw`](Self::draw) in its frame, [`on_screen`](Self::on_screen) when that
/// frame has been written, and [`handle_timeout`](Self::handle_timeout) when
/// [`poll_timeout`](Self::poll_timeout) has passed. Each gives actions for the host to do.
///
/// Input must be handed in in the order in which it was read, and what was read before a frame was written must be
/// handed in before [`on_screen`](Self::on_screen) is called for that frame: that is how a key that was pressed before an
/// ask was drawn is known. An ask of which [`on_screen`](Self::on_screen) was never told cannot be answered.
///
/// A host with an input line of its own keeps it until [`Action::TakeKeys`], hands its draft over with
/// [`stash`](Self::stash), sends keys here while [`wants_keys`](Self::wants_keys), and gets the draft back, cursor
/// included, with [`Action::GiveKeys`].
#[derive(Debug)]
pub struct Queue {
    pub(crate) settings: Settings,
    pub(crate) around: Around,
    pub(crate) items: HashMap<String, Item>,
    /// Ids in the order in which the asks came.
    arrival: Vec<String>,
    /// Where tool asks are allowed unasked, in words.
    pub(crate) skipping: Option<String>,
    /// Why nothing can be recorded, so that no answer counts: a timed one is due until it can.
    pub(crate) not_recorded: Option<String>,
    /// The ids of the list, in its order.
    pub(crate) listed: Vec<String>,
    pub(crate) focus: Option<String>,
    pub(crate) list_top: usize,
    pub(crate) mode: Mode,
    /// Place in the action in focus.
    pub(crate) pager: Pager,
    pub(crate) guard: Guard,
    pub(crate) notes: Notes,
    /// About the last key, until the next one.
    pub(crate) hint: Option<String>,
    /// The hint says why the key did nothing to the ask that is in focus: no other ask is shown with it.
    hint_of_focus: bool,
    pub(crate) link: Link,
    pub(crate) screen: Screen,
    pub(crate) staged: Option<Screen>,
    /// Lines that were left unfinished, kept for the next time one is opened.
    kept_message: Draft,
    kept_command: Draft,
    /// The host's own draft.
    stashed: Option<Draft>,
    has_keys: bool,
    /// Asks that ended while an answer from here was on its way: told when its reply comes.
    crossing: HashMap<String, Box<Ask>>,
    /// The last ask whose answer from here came late and is kept.
    kept_late: Option<String>,
    /// What is open is known.
    pub(crate) has_snapshot: bool,
    last_arrival: Option<Duration>,
    last_alert: Option<Duration>,
    title: Option<String>,
    bulk_number: u64,
}

/// What has the keyboard, and what is drawn.
#[derive(Debug)]
pub(crate) enum Mode {
    /// List and ask in focus.
    List,
    /// The ask in focus alone, with everything there is to know.
    Details,
    Help(Pager),
    Options(Options),
    Bulk(Bulk),
    /// List and ask, and a line that is typed.
    Line(Line),
    /// Output of a command.
    Output {
        lines: Vec<String>,
        pager: Pager,
    },
}

/// A line that is being typed.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) purpose: Purpose,
    pub(crate) editor: Editor,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Deny this ask with these words; `stop`: and stop the turn.
    Message { id: String, handle: String, digest: String, stop: bool },
    /// A command, for the session of the ask that was in focus or for every session.
    Command { session: Option<(String, String)>, only: bool },
}

/// What a frame has on it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Screen {
    /// What can be answered on it.
    pub(crate) target: Option<Target>,
    /// Nothing is: there is no room for anything.
    pub(crate) too_small: bool,
    /// Rows of the list, and the ask in focus.
    pub(crate) ids: Vec<String>,
    /// Parts of actions: ask, from, to.
    pub(crate) parts: Vec<(String, usize, usize)>,
    /// Part of the panel of options: from, to.
    pub(crate) panel: Vec<(usize, usize)>,
    /// The moments to which countdowns on it run, on the ticking clock.
    pub(crate) countdowns: Vec<i64>,
}

impl Queue {
    pub fn new(settings: Settings) -> Self {
        Self {
            around: Around::new(settings.place.clone()),
            settings,
            items: HashMap::new(),
            arrival: Vec::new(),
            skipping: None,
            not_recorded: None,
            listed: Vec::new(),
            focus: None,
            list_top: 0,
            mode: Mode::List,
            pager: Pager::default(),
            guard: Guard::default(),
            notes: Notes::default(),
            hint: None,
            hint_of_focus: false,
            link: Link::Up,
            screen: Screen::default(),
            staged: None,
            kept_message: Draft::default(),
            kept_command: Draft::default(),
            stashed: None,
            has_keys: false,
            crossing: HashMap::new(),
            kept_late: None,
            has_snapshot: false,
            last_arrival: None,
            last_alert: None,
            title: None,
            bulk_number: 0,
        }
    }

    /// How many asks wait for an answer, hidden ones too.
    pub fn waiting(&self) -> usize {
        self.items.values().filter(|item| item.is_answerable()).count()
    }

    /// How many asks are open as far as is known here: those that wait, and those whose answer has no reply yet.
    pub fn open(&self) -> usize {
        self.items.values().filter(|item| words::is_answerable(&item.ask)).count()
    }

    /// Id of the ask in focus.
    pub fn focus(&self) -> Option<&str> {
        self.focus.as_deref()
    }

    /// Whether keys belong to the queue: an ask waits in its list, or something is open.
    pub fn wants_keys(&self) -> bool {
        !matches!(self.mode, Mode::List)
            || self.listed.iter().any(|id| self.items.get(id).is_some_and(Item::is_answerable))
    }

    /// Whether a line of the queue's own is open: keys are text.
    pub fn is_typing(&self) -> bool {
        matches!(self.mode, Mode::Line(_))
    }

    /// Takes the draft of the host's own line, once, until it is given back. Who was typing there goes on for a moment:
    /// those keys answer nothing.
    pub fn stash(&mut self, draft: Draft, now: Now) {
        if !draft.is_empty() {
            self.guard.took_over(now.tick);
        }
        self.stashed.get_or_insert(draft);
    }

    /// Gives the stashed draft back before its time, for a host that takes the keyboard by itself.
    pub fn restore(&mut self) -> Option<Draft> {
        self.has_keys = false;
        self.stashed.take()
    }

    /// Titles and directories of the sessions, for telling who asks.
    pub fn set_sessions(&mut self, sessions: Vec<SessionView>) {
        self.around.set_sessions(sessions);
    }

    /// A line for the person, made safe here.
    pub fn say(&mut self, text: &str) {
        self.notes.say(words::one(text), Look::Quiet);
    }

    /// About the last key, until the next one.
    pub(crate) fn say_now(&mut self, text: &str) {
        self.hint.get_or_insert_with(|| text.to_owned());
    }

    /// A line that must not be overlooked.
    pub fn warn(&mut self, text: &str) {
        self.notes.say(words::one(text), Look::Warn);
    }

    /// The lines about what happened that are kept, the newest last; safe, for another screen.
    pub fn told(&self) -> Vec<String> {
        self.notes.last(usize::MAX).map(Note::line).collect()
    }

    /// Lines that were told are forgotten: [`told`](Self::told) gives those after this.
    pub(crate) fn forget_told(&mut self) {
        self.notes.clear();
    }

    /// The screen was lost (the program was stopped, or something else was drawn over it): nothing on it counts as seen.
    pub fn blind(&mut self) {
        self.guard.blind();
        self.screen = Screen::default();
        self.staged = None;
    }

    /// The frame that was drawn last has been written. Everything that was typed before must have been handed in.
    #[must_use]
    pub fn on_screen(&mut self, now: Now) -> Vec<Action> {
        let Some(screen) = self.staged.take() else { return Vec::new() };
        let mut actions = Vec::new();
        for id in &screen.ids {
            let Some(item) = self.items.get_mut(id).filter(|item| !item.seen) else { continue };
            item.seen = true;
            actions.push(Action::Report(match crate::content::not_shown(&item.ask) {
                None => askd_wire::SurfaceReport::Shown { ask: id.clone() },
                Some(why) => askd_wire::SurfaceReport::Failed { ask: id.clone(), reason: why.to_owned() },
            }));
        }
        let mut more = false;
        for (id, from, to) in &screen.parts {
            if let Some(item) = self.items.get_mut(id) {
                let before = item.reached;
                item.reached.saw(*from, *to);
                more |= before != item.reached;
            }
        }
        if let Mode::Options(options) = &mut self.mode {
            for (from, to) in &screen.panel {
                let before = options.reached;
                options.reached.saw(*from, *to);
                more |= before != options.reached;
            }
        }
        if more {
            self.guard.saw_more(now.tick);
        }
        self.guard.on_screen(screen.target.clone(), now.tick);
        self.screen = screen;
        actions
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called and the queue drawn again, if nothing happens
    /// before: each second while a countdown is on the screen, when a key begins to count, when a snooze ends. None:
    /// never.
    pub fn poll_timeout(&self, now: Now) -> Option<Duration> {
        let tick = now.tick_ms();
        let seconds = self.screen.countdowns.iter().filter(|due| **due > tick);
        // All countdowns change on one beat, that of the nearest.
        let beat = seconds.min().map(|due| {
            let into = (due - tick + 500).rem_euclid(1000);
            if into == 0 { 1 } else { into + 1 }
        });
        let guard = self.guard.opens_at(now.tick).map(|at| {
            let ms = at.saturating_sub(now.tick).as_micros().div_ceil(1000);
            i64::try_from(ms).unwrap_or(i64::MAX)
        });
        let snooze = self.items.values().filter_map(|item| item.snoozed_until_ms).min().map(|at| at - tick);
        let ms = [beat, guard, snooze].into_iter().flatten().min()?;
        Some(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
    }

    /// Time has passed.
    #[must_use]
    pub fn handle_timeout(&mut self, now: Now) -> Vec<Action> {
        let tick = now.tick_ms();
        let mut actions = Vec::new();
        let mut back = Vec::new();
        for (id, item) in &mut self.items {
            if item.snoozed_until_ms.is_some_and(|at| at <= tick) {
                item.snoozed_until_ms = None;
                back.push(id.clone());
            }
        }
        if let Some(id) = back.first() {
            let text = format!("back from snooze: {}", self.about(id));
            self.alert(text, now, &mut actions);
        }
        self.settle(actions)
    }

    /// After every change: the order of the list, the focus, the title, who has the keyboard.
    fn settle(&mut self, mut actions: Vec<Action>) -> Vec<Action> {
        self.order();
        let title = match self.waiting() {
            0 => "askd".to_owned(),
            n => format!("askd: {n} waiting"),
        };
        if self.title.as_ref() != Some(&title) {
            actions.push(Action::Title(title.clone()));
            self.title = Some(title);
        }
        let wants = self.wants_keys();
        if wants != self.has_keys {
            self.has_keys = wants;
            actions.push(if wants { Action::TakeKeys } else { Action::GiveKeys(self.stashed.take()) });
        }
        actions
    }

    /// Asks that are alike stand together, at the place of the first; those that only the agent can answer stand last.
    fn order(&mut self) {
        let before = self.focus.as_ref().and_then(|focus| self.listed.iter().position(|id| id == focus));
        let listed = |id: &&String| {
            self.items
                .get(*id)
                .is_some_and(|item| item.snoozed_until_ms.is_none() && item.answering.is_none())
        };
        let mut groups: Vec<Vec<&String>> = Vec::new();
        let mut places: HashMap<_, usize> = HashMap::new();
        let mut last = Vec::new();
        for id in self.arrival.iter().filter(listed) {
            let Some(item) = self.items.get(id) else { continue };
            if item.is_handed_back() {
                last.push(id);
                continue;
            }
            let place = *places.entry(item.likeness()).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Vec::new());
            }
            groups[place].push(id);
        }
        self.listed = groups.into_iter().flatten().chain(last).cloned().collect();
        let still = self.focus.as_ref().is_some_and(|focus| self.listed.contains(focus));
        if !still {
            let at = before.unwrap_or(0).min(self.listed.len().saturating_sub(1));
            self.set_focus(self.listed.get(at).cloned());
            if matches!(self.mode, Mode::Details) {
                self.mode = Mode::List;
            }
        }
    }

    fn set_focus(&mut self, focus: Option<String>) {
        if self.focus != focus {
            self.focus = focus;
            self.pager = Pager::default();
            if std::mem::take(&mut self.hint_of_focus) {
                self.hint = None;
            }
        }
    }

    pub(crate) fn focused(&self) -> Option<&Item> {
        self.items.get(self.focus.as_ref()?)
    }

    /// How many of the listed asks are like this one, and which of them it is, from 1.
    pub(crate) fn alike(&self) -> HashMap<&str, (usize, usize)> {
        let mut counts: HashMap<_, Vec<&str>> = HashMap::new();
        for id in &self.listed {
            if let Some(item) = self.items.get(id).filter(|item| !item.is_handed_back()) {
                counts.entry(item.likeness()).or_default().push(id);
            }
        }
        let groups = counts.into_values().filter(|ids| ids.len() > 1);
        groups
            .flat_map(|ids| {
                let count = ids.len();
                ids.into_iter().enumerate().map(move |(at, id)| (id, (at + 1, count)))
            })
            .collect()
    }

    /// One line about an ask that is here.
    fn about(&self, id: &str) -> String {
        self.items.get(id).map(|item| item.summary(80)).unwrap_or_default()
    }

    fn note(&mut self, handle: &str, about: About, text: String, look: Look) {
        self.notes.push(Note { handle: words::one(handle), about, text, look });
    }

    fn remove(&mut self, id: &str) -> Option<Item> {
        let item = self.items.remove(id)?;
        self.arrival.retain(|other| other != id);
        Some(item)
    }

    /// Ids of the asks that the screen shows a row or the action of.
    fn ids_on_screen(&self) -> HashSet<&str> {
        self.screen.ids.iter().map(String::as_str).collect()
    }
}
