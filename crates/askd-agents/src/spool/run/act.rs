//! What one tree's thread does: what the machine says.

use std::io;
use std::sync::Arc;

use askd_client::spool::{PlaceError, Put, REQUESTS, decode_session};
use askd_wire::RaiseAsk;

use super::worker::{Worker, wall_ms};
use crate::spool::carry::{Carrier, Order};
use crate::spool::clerk::Job;
use crate::spool::machine::{Action, AskNo, Id};
use crate::spool::{process, wire};

impl Worker {
    /// Does what the machine says, and what follows from that.
    pub(super) fn act(&mut self) {
        loop {
            let actions = self.machine.take();
            if actions.is_empty() {
                return;
            }
            for action in actions {
                self.act_on(action);
            }
        }
    }

    fn act_on(&mut self, action: Action) {
        match action {
            Action::Keep(name) => {
                let kept = self.tree.keep(&name);
                if let Err(error) = &kept {
                    self.tell_once(&format!("keep {name}"), &format!("{name}: cannot be kept: {error}"));
                } else {
                    self.told.remove(&format!("keep {name}"));
                    self.eyes.watch_session(&self.tree.root.path, &name);
                }
                self.machine.kept(&name, kept.ok());
            }
            Action::Raise(no, raise) => {
                if let Err(error) = self.carry(no, *raise) {
                    let why = format!("no thread for it: {error}");
                    self.machine.refused(no, &why, process::now(), wall_ms());
                }
            }
            Action::Recall(no, raise, said) => self.give(Job::Recall(no, raise, said)),
            Action::Withdraw(no, cause) => self.order(no, Order::Withdraw(cause)),
            Action::Handed(no) => self.give(Job::Handed(no)),
            Action::Confirmed(no) => self.give(Job::Confirmed(no)),
            Action::Over(no) => {
                self.order(no, Order::Over);
                self.carriers.remove(&no);
                self.give(Job::Over(no));
            }
            Action::AnsweredElsewhere(no, id) => {
                let said = self.response(&id).and_then(|bytes| wire::says(&bytes));
                self.order(no, Order::Elsewhere(said));
            }
            Action::Answer(id, bytes, beside) => {
                let now = process::now();
                match self.tree.answer(&id, &bytes, &beside) {
                    Ok(None) => self.machine.not_beside(&id, now),
                    Ok(Some(Put::Taken)) => {
                        let there = self.response(&id);
                        self.machine.placed(&id, Ok(Put::Taken), there.as_deref(), now);
                    }
                    Ok(Some(put)) => self.machine.placed(&id, Ok(put), None, now),
                    Err(error) => self.machine.placed(&id, Err(error.to_string()), None, now),
                }
            }
            Action::RemoveRequest(id) => {
                let removed = self.tree.remove(&id, REQUESTS);
                self.removed(&id, removed);
            }
            Action::RemoveResponse(id, bytes) => {
                let removed = self.tree.remove_response(&id, &bytes);
                self.removed(&id, removed);
            }
            Action::Beat(name) => {
                if let Some(id) = decode_session(&name)
                    && let Err(error) = self.tree.beat(&name, &id, wall_ms())
                {
                    self.tell_once("beat", &format!("the serving record cannot be written: {error}"));
                }
            }
            Action::Unbeat(name) => drop(self.tree.unbeat(&name)),
            Action::Leave(name) => {
                let tell = Arc::clone(&self.options.tell);
                self.tree.leave(&name, &mut |text| tell(text));
                self.locks.release(&name);
            }
            Action::Tell(text) => self.tell(&text),
        }
    }

    fn carry(&mut self, no: AskNo, raise: RaiseAsk) -> io::Result<()> {
        self.carriers.insert(no, Carrier::start(self.around.clone(), no, raise)?);
        self.running.insert(no);
        Ok(())
    }

    fn order(&self, no: AskNo, order: Order) {
        if let Some(carrier) = self.carriers.get(&no) {
            carrier.order(order);
        }
    }

    /// What the response says that is in place.
    fn response(&self, id: &Id) -> Option<Vec<u8>> {
        self.tree.read_response(id).ok()?.map(|(_, bytes)| bytes)
    }

    fn removed(&mut self, id: &Id, removed: Result<(), PlaceError>) {
        let what = format!("remove {id}");
        match removed {
            Ok(()) => drop(self.told.remove(&what)),
            Err(error) => self.tell_once(&what, &format!("{id}: {error}")),
        }
    }
}
