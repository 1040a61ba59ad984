//! Looks at the working state and the journal.

use askd_core::state::Session;
use askd_core::{AskId, Overrides};
use askd_journal::Journal;

use super::desk::{Desk, is_over};
use super::message::{Counts, Message, Opened, Permissions, SessionShot, Sides, Whose};
use crate::history;
use crate::permissions;
use crate::view::Shot;

impl<J: Journal> Desk<J> {
    pub(super) fn serve(&mut self, message: Message) {
        match message {
            // These are gathered into batches.
            Message::Do { .. } | Message::Answers(_) => {}
            Message::Wait { ask, reply } => match self.shot(ask) {
                Some(shot) if !is_over(&shot) => self.wait_for(ask, reply),
                Some(shot) => drop(reply.send(shot.into())),
                // Finished meanwhile.
                None => {
                    if let Ok(Some(shot)) = history::recall(self.writer.journal(), ask, self.clock.now()) {
                        let _ = reply.send(shot.into());
                    }
                }
            },
            Message::Look { name, reply } => {
                let _ = reply.send(self.look(&name));
            }
            Message::Opened { whose, reply } => {
                let _ = reply.send(Opened { position: self.last, asks: self.open_of(&whose) });
            }
            Message::StillOpen { asks, reply } => {
                let shots = asks.into_iter().filter_map(|id| self.shot(id));
                let _ = reply.send(shots.filter(|shot| shot.ask.is_open()).collect());
            }
            Message::Position { reply } => drop(reply.send(self.last)),
            Message::Sessions { reply } => {
                let state = self.writer.state();
                let sessions = state
                    .sessions()
                    .map(|s| SessionShot { session: s.clone(), root: state.root_of(&s.info.key) })
                    .collect();
                let _ = reply.send(sessions);
            }
            Message::Counts { reply } => {
                let state = self.writer.state();
                let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
                let everywhere = (None, state.set_for_all());
                let live = state.sessions().filter(|s| !s.ended);
                let single = live.map(|s| (Some(&s.info.key), s.set_here()));
                let single = single.filter(|(_, overrides)| *overrides != Overrides::default());
                let _ = reply.send(Counts {
                    open: number(state.open().count()),
                    surfaces: number(state.surfaces().count()),
                    not_recorded: self.failing.clone(),
                    skipping: permissions::skipping(state),
                    overrides: std::iter::once(everywhere)
                        .filter(|(_, overrides)| *overrides != Overrides::default())
                        .chain(single.map(|(key, overrides)| (key.cloned(), overrides)))
                        .collect(),
                });
            }
            Message::Loosenings { reply } => drop(reply.send(self.writer.state().loosenings().clone())),
            Message::Forwarders { reply } => drop(reply.send(self.writer.state().forwarders())),
            Message::NamerOf { agent, reply } => {
                let state = self.writer.state();
                let ask = state.open().find(|(_, ask)| ask.ask.requester.instance.as_ref() == Some(&agent));
                let ask = ask.map(|(_, ask)| format!("ask {}", ask.ask.handle));
                let names = |info: &&Session| !info.ended && info.info.instance.as_ref() == Some(&agent);
                let session = || state.sessions().find(names).map(|s| format!("session {}", s.info.key));
                let _ = reply.send(ask.or_else(session));
            }
            Message::SidesOf { session, reply } => {
                let state = self.writer.state();
                let agent = state.agent_of(&session).cloned();
                let waiting = agent.iter().cloned().chain(state.processes_waiting(&session)).collect();
                let _ = reply.send(Sides { agent, requesters: state.requesters_of(&session), waiting });
            }
            Message::OfRequester { token, key, reply } => {
                let _ = reply.send(self.writer.state().of_requester(token, &key));
            }
            Message::ComesBack { token, key, digest, reply } => {
                let _ = reply.send(self.writer.state().by_key(token, &key, digest).is_some());
            }
            Message::Permissions { session, reply } => {
                let state = self.writer.state();
                let everywhere = state.set_for_all();
                let permissions = match session {
                    Some(key) => Permissions {
                        settings: state.settings_for(&key),
                        session: state
                            .session(&state.root_of(&key))
                            .map(Session::set_here)
                            .unwrap_or_default(),
                        everywhere,
                    },
                    None => Permissions {
                        settings: state.settings_for_all(),
                        session: Overrides::default(),
                        everywhere,
                    },
                };
                let _ = reply.send(permissions);
            }
            Message::Settings(settings) => {
                self.writer.set_settings(*settings);
                self.tell_skipping(true);
            }
            Message::Prune { closed_before_wall_ms, reply } => {
                let _ = reply.send(self.prune(closed_before_wall_ms));
            }
            Message::Leave { .. } => {}
        }
    }

    fn open_of(&self, whose: &Whose) -> Vec<AskId> {
        let state = self.writer.state();
        let open = state.open();
        match whose {
            Whose::Everybodys => open.map(|(id, _)| id).collect(),
            Whose::Requesters(token) => {
                open.filter(|(_, ask)| ask.ask.requester.token == *token).map(|(id, _)| id).collect()
            }
            Whose::Roots(root) => open
                .filter(|(_, ask)| state.root_of(ask.session()).to_string() == *root)
                .map(|(id, _)| id)
                .collect(),
            Whose::Surfaces(surface) => {
                let held = self.slots.get(surface);
                open.map(|(id, _)| id).filter(|id| held.is_some_and(|held| held.contains(id))).collect()
            }
        }
    }

    fn look(&self, name: &str) -> Result<Option<Shot>, String> {
        let Some(id) = self.writer.resolve(name).map_err(|e| e.to_string())? else { return Ok(None) };
        match self.shot(id) {
            Some(shot) => Ok(Some(shot)),
            None => history::recall(self.writer.journal(), id, self.clock.now()).map_err(|e| e.to_string()),
        }
    }

    fn prune(&mut self, closed_before_wall_ms: i64) -> usize {
        match self.writer.journal_mut().prune(closed_before_wall_ms, 1000) {
            Ok(0) => 0,
            Ok(gone) => {
                tracing::info!("{gone} streams are past the retention time and were removed");
                gone
            }
            Err(error) => {
                tracing::warn!("removing old asks: {error}");
                0
            }
        }
    }
}
