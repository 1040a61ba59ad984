//! One ask as the queue holds it.

use std::rc::Rc;
use std::time::Duration;

use askd_wire::{Ask, Class, Decision};
use serde_json::value::RawValue;

use crate::content::{self, Reached};
use crate::notes::About;
use crate::now::Now;
use crate::rows::Row;
use crate::words;

/// A requester's own limit further away than this is told with the whole ask only.
const FAR: Duration = Duration::from_secs(900);

#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) ask: Ask,
    /// When the timed answer applies, on the ticking clock.
    due_ms: Option<i64>,
    /// When the requester itself stops waiting, on the ticking clock.
    gives_up_ms: Option<i64>,
    pub(crate) snoozed_until_ms: Option<i64>,
    /// An answer from here is on its way.
    pub(crate) answering: Option<Decision>,
    /// It was on the screen.
    pub(crate) seen: bool,
    pub(crate) reached: Reached,
    total: usize,
    wrapped: Option<(usize, Rc<[Row]>)>,
}

impl Item {
    pub(crate) fn new(ask: Ask, now: Now) -> Self {
        let mut item = Self {
            due_ms: None,
            gives_up_ms: None,
            snoozed_until_ms: None,
            answering: None,
            seen: false,
            reached: Reached::default(),
            total: content::total(&ask),
            wrapped: None,
            ask,
        };
        item.place(now);
        item
    }

    /// Takes what the daemon says now. What was asked never changes; what was placed in time stays there.
    pub(crate) fn update(&mut self, ask: Ask, now: Now) {
        let moved = (ask.deadline != self.ask.deadline, ask.gives_up_at != self.ask.gives_up_at);
        if ask.digest != self.ask.digest || ask.display != self.ask.display {
            self.reached = Reached::default();
            self.total = content::total(&ask);
            self.wrapped = None;
        }
        self.ask = ask;
        if moved != (false, false) {
            self.place(now);
        }
    }

    fn place(&mut self, now: Now) {
        let place = |time: &Option<String>| time.as_deref().and_then(|time| now.place(time));
        self.due_ms = place(&self.ask.deadline);
        self.gives_up_ms = place(&self.ask.gives_up_at);
    }

    pub(crate) fn is_safety(&self) -> bool {
        self.ask.class == Class::Safety
    }

    pub(crate) fn is_background(&self) -> bool {
        self.ask.attendance == askd_wire::Attendance::Background
    }

    pub(crate) fn is_handed_back(&self) -> bool {
        words::is_handed_back(&self.ask)
    }

    /// Open, askd's to answer, and not being answered from here.
    pub(crate) fn is_answerable(&self) -> bool {
        words::is_answerable(&self.ask) && self.answering.is_none()
    }

    /// Everything of it was on the screen.
    pub(crate) fn is_read(&self) -> bool {
        content::not_shown(&self.ask).is_none() && self.reached.0 >= self.total
    }

    /// Time until the timed answer.
    pub(crate) fn left(&self, now: Now) -> Option<Duration> {
        self.due_ms.filter(|_| words::is_answerable(&self.ask)).map(|due| now.left(due))
    }

    /// Time until the requester stops waiting, and whether that is before the timed answer.
    pub(crate) fn gives_up(&self, now: Now) -> Option<(Duration, bool)> {
        let at = self.gives_up_ms.filter(|_| words::is_answerable(&self.ask))?;
        Some((now.left(at), self.due_ms.is_some_and(|due| due > at)))
    }

    /// The same where it is near enough to matter.
    pub(crate) fn gives_up_soon(&self, now: Now) -> Option<(Duration, bool)> {
        self.gives_up(now).filter(|(left, _)| *left <= FAR)
    }

    /// The moments to which countdowns run that are told of it.
    pub(crate) fn countdowns(&self, now: Now) -> impl Iterator<Item = i64> {
        let due = self.due_ms.filter(|_| self.left(now).is_some());
        due.into_iter().chain(self.gives_up_ms.filter(|_| self.gives_up_soon(now).is_some()))
    }

    /// The first moment at which the ask is lost to the person, on the ticking clock.
    pub(crate) fn ends_ms(&self) -> Option<i64> {
        [self.due_ms, self.gives_up_ms].into_iter().flatten().min()
    }

    /// The beginning of the same line, which may be shown in less.
    pub(crate) fn about(&self, columns: usize) -> About {
        About::of(&self.summary(usize::MAX), columns)
    }

    pub(crate) fn summary(&self, columns: usize) -> String {
        let action = &self.ask.action;
        askd_text::summary(
            &askd_text::Action {
                tool: &action.tool,
                kind: action.kind.as_deref(),
                title: action.title.as_deref(),
                input: action.input.as_deref().map(RawValue::get),
                cwd: action.cwd.as_deref(),
            },
            columns,
        )
    }

    /// The action in full at this width.
    pub(crate) fn rows(&mut self, columns: usize) -> Rc<[Row]> {
        if let Some((width, rows)) = &self.wrapped
            && *width == columns
        {
            return Rc::clone(rows);
        }
        let rows: Rc<[Row]> = content::rows(&self.ask, columns).into();
        self.wrapped = Some((columns, Rc::clone(&rows)));
        rows
    }

    /// Asks that are alike in everything that would run.
    pub(crate) fn likeness(&self) -> (&str, bool) {
        (&self.ask.digest, self.is_safety())
    }
}
