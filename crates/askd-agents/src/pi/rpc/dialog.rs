//! One permission dialog between pi, the host and askd.

use std::time::Duration;

use askd_wire::{Choice, ChoiceKind, Decision};

use super::lines::{self, Select};

/// What pi's extension offers, in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Labels {
    yes: String,
    /// Grants beyond this call.
    always: Vec<String>,
    no: String,
    /// A no that is followed by a question for the reason.
    no_with_reason: Option<String>,
}

/// The ids at askd.
const ALLOW: &str = "allow_once";
const DENY: &str = "reject_once";
const ALWAYS: &str = "allow_session";

impl Labels {
    /// `None`: not a permission dialog.
    pub(super) fn of(select: &Select) -> Option<Self> {
        if !lines::is_permission(&select.title) {
            return None;
        }
        let mut distinct = select.options.clone();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() != select.options.len() {
            return None;
        }
        let one = |label: &str| select.options.iter().find(|option| *option == label).cloned();
        let (yes, no) = (one("Yes")?, one("No")?);
        let starting = |start: &'static str| {
            select.options.iter().filter(move |option| option.starts_with(start)).cloned()
        };
        Some(Self { yes, always: starting("Yes,").collect(), no, no_with_reason: starting("No,").next() })
    }

    pub(super) fn choices(&self) -> Vec<Choice> {
        let mut all = vec![Choice::plain(ALLOW, &*self.yes, ChoiceKind::AllowOnce)];
        for (at, label) in self.always.iter().enumerate() {
            let mut choice = Choice::plain(always(at), &**label, ChoiceKind::AllowAlways);
            choice.grants = Some(label.strip_prefix("Yes, ").unwrap_or(label).to_owned());
            all.push(choice);
        }
        all.push(Choice::plain(DENY, &*self.no, ChoiceKind::RejectOnce));
        all
    }

    /// What a value of the host means.
    pub(super) fn choice(&self, value: &str) -> Option<(String, Decision)> {
        if value == self.yes {
            return Some((ALLOW.to_owned(), Decision::Allow));
        }
        if let Some(at) = self.always.iter().position(|label| label == value) {
            return Some((always(at), Decision::Allow));
        }
        let denies = value == self.no || self.no_with_reason.as_deref() == Some(value);
        denies.then(|| (DENY.to_owned(), Decision::Deny))
    }

    /// What pi is told for an allow. Never an always that was not chosen.
    pub(super) fn allow(&self, option: Option<&str>) -> &str {
        let chosen = self.always.iter().enumerate().find(|(at, _)| option == Some(&*always(*at)));
        chosen.map_or(&self.yes, |(_, label)| label)
    }

    /// What pi is told for a deny, and whether it asks for the reason then.
    pub(super) fn deny(&self, with_reason: bool) -> (&str, bool) {
        match self.no_with_reason.as_deref().filter(|_| with_reason) {
            Some(label) => (label, true),
            None => (&self.no, false),
        }
    }

    /// Whether pi asks for a reason or for a scope behind this value.
    pub(super) fn is_reason(&self, value: &str) -> bool {
        self.no_with_reason.as_deref() == Some(value)
    }

    pub(super) fn is_always(&self, value: &str) -> bool {
        self.always.iter().any(|label| label == value)
    }
}

fn always(at: usize) -> String {
    if at == 0 { ALWAYS.to_owned() } else { format!("{ALWAYS}_{}", at + 1) }
}

/// The host's dialog.
#[derive(Debug)]
pub(super) enum Host {
    Asked,
    /// By this line of its own; it said nothing that counts.
    Left(Vec<u8>),
    /// It may not answer.
    Barred,
    Gone,
}

/// What askd knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    Raising,
    Raised,
    /// Not to be had: the host's answer counts alone.
    Off,
}

#[derive(Debug)]
pub(super) enum State {
    Open,
    /// The host answered, and the journal does not know yet.
    Deciding {
        line: Vec<u8>,
        option: String,
        decision: Decision,
        since: Duration,
        sent: bool,
    },
    /// pi was told. `unsure`: the journal may have another answer.
    Answered {
        decision: Decision,
        unsure: bool,
    },
    Ended,
}

#[derive(Debug)]
pub(super) struct Dialog {
    /// pi's own id.
    pub(super) id: String,
    /// One line for the host.
    pub(super) title: String,
    /// A subagent's.
    pub(super) forwarded: bool,
    pub(super) labels: Labels,
    /// The call that it is about.
    pub(super) call: Option<String>,
    pub(super) host: Host,
    pub(super) stand: Stand,
    pub(super) state: State,
    /// pi settles it by itself then.
    pub(super) gives_up: Option<Duration>,
}

impl Dialog {
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Answered { .. } | State::Ended)
    }

    pub(super) fn host_is_gone(&mut self) {
        if matches!(self.host, Host::Asked) {
            self.host = Host::Gone;
        }
    }

    pub(super) fn deciding_since(&self) -> Option<Duration> {
        match &self.state {
            State::Deciding { since, .. } => Some(*since),
            _ => None,
        }
    }
}
