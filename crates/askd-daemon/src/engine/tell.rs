//! What the rest of the daemon hears after a batch: numbers that changed, slots, the next alarm, new agents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use askd_core::command::Command;
use askd_core::state::AskState;
use askd_core::{AskId, Instance, Seen, SessionKey, SurfaceId};
use askd_journal::Journal;

use super::desk::Desk;
use crate::permissions;
use crate::publish::What;

/// Until a journal that takes nothing is tried again, in milliseconds.
const RETRY_MS: u64 = 1000;

impl<J: Journal> Desk<J> {
    pub(super) fn publish(&self, what: What) {
        self.outlets.published.send(what);
    }

    /// Tells how many asks each of these sessions waits for, when that is another number than was told last.
    pub(super) fn tell_waiting(&mut self, touched: BTreeSet<SessionKey>) {
        for session in touched {
            let state = self.writer.state();
            let (waiting, root) = (state.waiting(&session), state.root_of(&session));
            let told = match waiting {
                0 => self.told_waiting.remove(&session),
                waiting => self.told_waiting.insert(session.clone(), waiting),
            };
            if told.unwrap_or(0) != waiting {
                self.publish(What::Waiting { session, root, waiting });
            }
        }
    }

    /// Surfaces of a tree hear of the open asks of a session that was linked to it.
    pub(super) fn tell_moved(&mut self) {
        for (id, before) in self.writer.take_moved() {
            // A batch that was not written, or that moved it back.
            let shot = self.shot(id).filter(|s| s.root != before && s.ask.is_open());
            if let Some(shot) = shot {
                self.publish(What::Moved { before, shot: shot.into() });
            }
        }
    }

    /// Surfaces with a capacity hear of an ask when it gets a slot there.
    pub(super) fn tell_slots(&mut self) {
        let state = self.writer.state();
        let now: BTreeMap<SurfaceId, BTreeSet<AskId>> =
            state.limited_surfaces().map(|(surface, held)| (surface.clone(), held.clone())).collect();
        for (surface, held) in &now {
            let before = self.slots.get(surface);
            for id in held.iter().filter(|id| before.is_some_and(|b| !b.contains(*id))) {
                if let Some(shot) = self.shot(*id) {
                    self.publish(What::Slot { surface: surface.clone(), shot: shot.into() });
                }
            }
        }
        self.slots = now;
    }

    /// Where permissions are skipped may be another than before. `aloud`: nothing else says so.
    pub(super) fn tell_skipping(&mut self, aloud: bool) {
        let now = permissions::skipping(self.writer.state());
        if now == self.skipping {
            return;
        }
        if aloud {
            let text =
                now.text().unwrap_or_else(|| "skip-permissions is off: everything is asked".to_owned());
            self.publish(What::Notice(text));
        }
        self.skipping = now;
    }

    /// The journal took nothing. Agents ask by themselves meanwhile, so whoever looks has to hear of it.
    pub(super) fn fails(&mut self, why: String) {
        if self.failing.as_ref() != Some(&why) {
            let text =
                format!("nothing can be recorded, so agents ask by themselves and no answer counts: {why}");
            tracing::error!("{text}");
            self.publish(What::Notice(text));
        }
        self.failing = Some(why);
    }

    /// The journal took something.
    pub(super) fn works(&mut self) {
        if self.failing.take().is_some() {
            let text = "the journal records again";
            tracing::info!("{text}");
            self.publish(What::Notice(text.to_owned()));
        }
    }

    /// Nothing was to be recorded: whether it could be is found out, where it could not be before.
    pub(super) fn try_again(&mut self) {
        if self.failing.is_some() {
            match self.writer.journal_mut().try_writing() {
                Ok(()) => self.works(),
                Err(error) => self.fails(error.to_string()),
            }
        }
    }

    pub(super) fn set_alarm(&self) {
        let due = self.writer.poll_timeout(self.clock.now()).map(|(ms, _)| ms);
        // While the journal takes nothing it is tried again now and then, and a due timer does not spin.
        let due = match self.failing.is_some() || !self.owed.is_empty() {
            true => Some(RETRY_MS),
            false => due,
        };
        // Waking the timer for nothing costs more than the comparison.
        self.outlets.alarm.send_if_modified(|told| std::mem::replace(told, due) != due);
    }

    pub(super) fn find_agents_of(&mut self, commands: &[Command], finished: &BTreeMap<AskId, AskState>) {
        let may_change = {
            let known = self.instances.borrow();
            let is_new = |instance: &Option<Instance>| instance.as_ref().is_some_and(|i| !known.contains(i));
            let gone = |ask: &AskState| ask.ask.requester.instance.is_some();
            commands.iter().any(|command| match command {
                Command::Raise(raise) => is_new(&raise.instance),
                Command::Observe(seen) => is_new(&seen.instance) || matches!(seen.seen, Seen::SessionEnded),
                Command::AgentGone { .. } => true,
                _ => false,
            }) || finished.values().any(gone)
        };
        if may_change {
            self.find_agents();
        }
    }

    pub(super) fn find_agents(&self) {
        let agents = self.writer.state().instances();
        let known = self.instances.send_replace(Arc::new(agents));
        for agent in self.instances.borrow().difference(&known) {
            let _ = self.outlets.agents.send(agent.clone());
        }
    }
}
