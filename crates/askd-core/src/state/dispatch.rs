//! `handle`: one command in, changes or a typed refusal out; the state itself is not changed.

use crate::command::Command;
use crate::event::{Change, Event, Note, Record};
use crate::id::{AskId, StreamId};
use crate::refusal::Refusal;
use crate::time::Now;

use super::timeout::record;
use super::{Handled, State};

/// Stream of what belongs to the daemon as such.
pub(super) const DAEMON: &str = "settings";

impl State {
    /// What `command` does at `now`. The caller journals the records, then applies all changes in order.
    pub fn handle(&self, command: &Command, now: Now) -> Handled {
        match command {
            Command::Raise(raise) => self.raise(raise, now),
            Command::Answer(answer) => self.answer(answer, now),
            Command::Withdraw { ask, token, cause } => self.withdraw(*ask, *token, *cause, now),
            Command::Dismiss { ask, by } => self.dismiss(*ask, by, now),
            Command::Heard { ask } => Handled::done(self.heard(*ask)),
            Command::Handed { ask, token } => self.handed(*ask, *token, now),
            Command::Confirmed { ask, token } => self.confirmed(*ask, *token, now),
            Command::DeliveryRefused { ask, token, reason } => {
                self.delivery_refused(*ask, *token, reason, now)
            }
            Command::DecidedByAgent { ask, token, decision, by, went_on } => {
                self.decided_by_agent((*ask, *token), *decision, by.as_ref(), *went_on, now)
            }
            Command::LinkClosed { link } => self.link_closed(*link, now),
            Command::Observe(seen) => self.observe(seen, now),
            Command::AttachSurface { surface, info } => {
                Handled::done(vec![Change::Note(Note::SurfaceAttached {
                    surface: surface.clone(),
                    info: info.clone(),
                })])
            }
            Command::DetachSurface { surface } => self.detach_surface(surface, now),
            Command::Shown { ask, surface, remote } => self.on_open(
                *ask,
                |ask| {
                    (!ask.shown.contains(surface))
                        .then(|| Event::Shown { surface: surface.clone(), remote: *remote })
                },
                now,
            ),
            Command::SurfaceFailed { ask, surface, reason } => self.on_open(
                *ask,
                |_| Some(Event::SurfaceFailed { surface: surface.clone(), reason: reason.clone() }),
                now,
            ),
            Command::RemotePolled { surface } => {
                Handled::done(vec![Change::Note(Note::RemotePolled { surface: surface.clone() })])
            }
            Command::AgentGone { instance } => self.agent_gone(instance, now),
            Command::RevokeLate { ask, by } => self.revoke_late(*ask, by, now),
            Command::AcceptLoosening { key, value, by } => {
                if self.loosenings.contains(&(key.clone(), value.clone())) {
                    return Handled::done(Vec::new());
                }
                let (key, value, by) = (key.clone(), value.clone(), by.clone());
                Handled::done(vec![daemon_record(now, Event::LooseningAccepted { key, value, by })])
            }
            Command::DropLoosening { key, value } => {
                if !self.loosenings.contains(&(key.clone(), value.clone())) {
                    return Handled::done(Vec::new());
                }
                let (key, value) = (key.clone(), value.clone());
                Handled::done(vec![daemon_record(now, Event::LooseningDropped { key, value })])
            }
            Command::KeepSurfaceState { surface, state } => Handled::done(vec![Change::Record(Record {
                stream: StreamId::Surface(surface.clone()),
                at: now,
                event: Event::SurfaceState { state: state.clone() },
            })]),
            Command::SetOverrides { session, overrides, by } => {
                self.set_overrides(session.as_ref(), overrides, by, now)
            }
            Command::Tidy { idle_ms, most } => self.tidy(*idle_ms, *most, now),
            Command::Stopping => self.stopping(now),
            Command::ExpectSurfaces { count } => {
                Handled::done(vec![Change::Note(Note::SurfacesExpected { count: *count })])
            }
            Command::Woke => Handled::done(vec![Change::Note(Note::Woke)]),
            Command::Tick => Handled::done(self.tick(now)),
        }
    }

    fn on_open(&self, id: AskId, event: impl FnOnce(&super::AskState) -> Option<Event>, now: Now) -> Handled {
        match self.asks.get(&id) {
            None => Handled::refused(Refusal::UnknownAsk),
            Some(ask) if ask.is_open() => {
                Handled::done(event(ask).map(|event| record(id, now, event)).into_iter().collect())
            }
            Some(_) => Handled::refused(Refusal::AlreadySettled(id)),
        }
    }

    /// With the last surface gone, agents whose own prompt waits behind askd get their asks back.
    fn detach_surface(&self, surface: &crate::SurfaceId, now: Now) -> Handled {
        let mut after = self.surfaces.clone();
        after.remove(surface);
        let reachable = |root: &crate::SessionKey| {
            self.awaited.is_on_at(now)
                || self.settings.remotes > 0
                || after.values().any(|s| s.scope.covers(root))
        };
        let auto = self.settings.hold_background == crate::settings::HoldBackground::Auto;
        let mut changes = vec![Change::Note(Note::SurfaceDetached { surface: surface.clone() })];
        for (id, ask) in self.open().filter(|(_, ask)| auto && !ask.is_handed_back()) {
            let Some(own) = ask.ask.requester.own_prompt.as_ref().filter(|o| o.blocked) else { continue };
            if !reachable(&self.root_of(ask.session())) {
                let why = "the last surface left".to_owned();
                changes.push(record(id, now, Event::HandedBack { at: own.at.clone(), why }));
            }
        }
        Handled::done(changes)
    }
}

pub(super) fn daemon_record(now: Now, event: Event) -> Change {
    Change::Record(Record { stream: StreamId::Daemon(DAEMON.to_owned()), at: now, event })
}
