//! Surfaces: what they know, how they come and go, and how their commands reach the daemon.

use std::collections::BTreeMap;

use askd_core::ask::{Ask, ChoiceKind};
use askd_core::command::{Answer, Command, Reply};
use askd_core::event::{Event, Scope, SurfaceInfo};
use askd_core::id::StreamId;
use askd_core::{AskId, Cause, Digest, Refusal, SessionKey, SurfaceId};
use askd_journal::{Position, Positioned};

use crate::desk::Desk;
use crate::plan::SurfacePlan;
use crate::story::tell;
use crate::transport::{Back, Mail, Sender};
use crate::world::{Happening, Said, World};

/// An ask as a surface shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Card {
    pub(crate) id: AskId,
    pub(crate) digest: Digest,
    pub(crate) root: SessionKey,
    pub(crate) options: Vec<(String, ChoiceKind)>,
    pub(crate) handed_back: bool,
    pub(crate) deadline_ms: Option<u64>,
}

impl Card {
    pub(crate) fn of(ask: &Ask, handed_back: bool) -> Self {
        Self {
            id: ask.id,
            digest: ask.digest,
            root: ask.lineage.root.clone(),
            options: ask.options.iter().map(|o| (o.id.clone(), o.kind)).collect(),
            handed_back,
            deadline_ms: ask.policy.deadline_ms,
        }
    }
}

/// What a daemon sends to a surface.
pub(crate) enum News {
    Snapshot { cards: Vec<Card>, position: Position },
    Entries(Vec<Positioned>),
}

pub(crate) struct Surface {
    pub(crate) plan: SurfacePlan,
    pub(crate) id: SurfaceId,
    pub(crate) name: String,
    /// Answers everything that it shows.
    pub(crate) diligent: bool,
    pub(crate) wanted: bool,
    /// The number of its connection, while it is attached.
    pub(crate) attached: Option<u64>,
    pub(crate) connections: u64,
    pub(crate) front: u64,
    pub(crate) seen: Position,
    pub(crate) cards: BTreeMap<AskId, Card>,
    scope: Scope,
    /// Answers that wait at a remote surface's server.
    at_server: Vec<Answer>,
    /// The queue, where the person has it.
    pub(crate) desk: Option<Box<Desk>>,
}

impl Surface {
    pub(crate) fn covers(&self, root: &SessionKey) -> bool {
        self.scope.covers(root)
    }
}

impl World {
    pub(crate) fn add_surface(&mut self, plan: SurfacePlan, diligent: bool) -> usize {
        let n = self.surfaces.len();
        let root = SessionKey { agent: "claude-code".to_owned(), session: "s0".to_owned() };
        self.surfaces.push(Surface {
            plan,
            id: SurfaceId(format!("surface{n}")),
            name: format!("place {n}"),
            diligent,
            wanted: true,
            attached: None,
            connections: 0,
            front: 0,
            seen: 0,
            cards: BTreeMap::new(),
            scope: if plan.narrow { Scope::Roots([root].into()) } else { Scope::All },
            at_server: Vec::new(),
            desk: plan
                .queue
                .then(|| Box::new(Desk::new(if n.is_multiple_of(2) { (60, 15) } else { (100, 30) }))),
        });
        n
    }

    pub(crate) fn attach(&mut self, s: usize) {
        let surface = &mut self.surfaces[s];
        if surface.attached.is_some() {
            return;
        }
        surface.wanted = true;
        let info = SurfaceInfo {
            name: surface.name.clone(),
            remote: surface.plan.remote,
            scope: surface.scope.clone(),
            capacity: surface.plan.capacity(),
        };
        let command = Command::AttachSurface { surface: surface.id.clone(), info };
        let daemon = surface.plan.daemon;
        self.send(daemon, None, Sender::Surface(s), command);
        let after = self.dice.between(5_000, 10_000);
        self.soon(after, Happening::Attach { surface: s });
    }

    pub(crate) fn leave(&mut self, s: usize) {
        if self.surfaces[s].attached.take().is_none() {
            return;
        }
        tell!(self, None, "surface {s} leaves");
        self.counts.add("surface left");
        self.desk_down(s);
        let command = Command::DetachSurface { surface: self.surfaces[s].id.clone() };
        let (daemon, from) = (self.surfaces[s].plan.daemon, Sender::Surface(s));
        // The daemon sees the end of the connection itself.
        if self.daemons[daemon].writer.is_some() {
            self.enqueue(daemon, Mail { command, from });
        }
        let after = self.dice.span(1_000, 300_000);
        self.soon(after, Happening::Attach { surface: s });
    }

    pub(crate) fn hear(&mut self, s: usize, connection: u64, news: News) {
        if self.surfaces[s].attached != Some(connection) {
            return;
        }
        match news {
            News::Snapshot { cards, position } => {
                tell!(self, None, "surface {s} gets a snapshot of {} cards at {position}", cards.len());
                self.counts.add("snapshot");
                self.surfaces[s].seen = position;
                self.surfaces[s].cards = cards.iter().map(|card| (card.id, card.clone())).collect();
                self.desk_snapshot(s, position);
                for card in cards {
                    self.consider(s, &card);
                }
                if self.surfaces[s].plan.remote {
                    let after = self.dice.span(50, 15_000);
                    self.soon(after, Happening::Poll { surface: s, connection });
                }
            }
            News::Entries(entries) => {
                for entry in entries {
                    if entry.position <= self.surfaces[s].seen {
                        continue;
                    }
                    if entry.position != self.surfaces[s].seen + 1 {
                        let (seen, got) = (self.surfaces[s].seen, entry.position);
                        self.broken(&[], format!("surface {s} was told of {got} after {seen}: a gap"));
                    }
                    self.surfaces[s].seen = entry.position;
                    self.desk_hears(s, &entry);
                    if let StreamId::Ask(id) = entry.stream {
                        self.hear_of(s, id, &entry.entry.event);
                    }
                }
            }
        }
    }

    fn hear_of(&mut self, s: usize, id: AskId, event: &Event) {
        match event {
            Event::Asked { ask } => {
                let card = Card::of(ask, false);
                self.surfaces[s].cards.insert(id, card.clone());
                self.consider(s, &card);
            }
            Event::HandedBack { .. } => {
                if let Some(card) = self.surfaces[s].cards.get_mut(&id) {
                    card.handed_back = true;
                }
            }
            Event::Settled { .. } => {
                self.surfaces[s].cards.remove(&id);
            }
            Event::Withdrawn { outcome } => {
                let card = self.surfaces[s].cards.remove(&id);
                if let Some(card) = card.filter(|_| outcome.cause == Cause::RequesterGone) {
                    self.consider_late(s, &card);
                }
            }
            Event::LateRecorded { .. } => self.consider_revoking(s, id),
            _ => {}
        }
    }

    /// A remote surface asks its server what people sent.
    pub(crate) fn poll(&mut self, s: usize, connection: u64) {
        let daemon = self.surfaces[s].plan.daemon;
        if self.surfaces[s].attached != Some(connection) || self.daemons[daemon].writer.is_none() {
            return;
        }
        for answer in std::mem::take(&mut self.surfaces[s].at_server) {
            let from = self.note_said(s, &answer);
            self.enqueue(daemon, Mail { command: Command::Answer(answer), from });
        }
        let command = Command::RemotePolled { surface: self.surfaces[s].id.clone() };
        self.enqueue(daemon, Mail { command, from: Sender::Surface(s) });
        let after = self.dice.between(10_000, 60_000);
        self.soon(after, Happening::Poll { surface: s, connection });
    }

    fn note_said(&mut self, s: usize, answer: &Answer) -> Sender {
        let said = self.said.len();
        self.said.push(Said { answer: answer.clone(), surface: s, settled: false, lost: false });
        Sender::Answerer { surface: s, said }
    }

    /// A person answers.
    pub(crate) fn say(&mut self, s: usize, answer: Answer) {
        tell!(self, Some(answer.ask), "person at surface {s}: {:?} {:?}", answer.decision, answer.option);
        if self.surfaces[s].plan.remote {
            self.surfaces[s].at_server.push(answer);
            return;
        }
        let from = self.note_said(s, &answer);
        self.send(self.surfaces[s].plan.daemon, None, from, Command::Answer(answer));
    }

    pub(crate) fn act(&mut self, s: usize, command: Command) {
        match &command {
            Command::Dismiss { ask, .. } => {
                self.sent.dismissals.insert(*ask);
            }
            Command::RevokeLate { ask, .. } => {
                self.sent.revocations.insert(*ask);
            }
            Command::SetOverrides { session, overrides, .. } => {
                self.sent.overrides.push((session.clone(), overrides.clone()));
            }
            _ => {}
        }
        tell!(self, command.needs(), "surface {s}: {command:?}");
        self.send(self.surfaces[s].plan.daemon, None, Sender::Surface(s), command);
    }

    pub(crate) fn answer_came_back(&mut self, s: usize, said: usize, back: Back) {
        self.desk_answered(s, self.said[said].answer.ask, &back);
        let again = match &back {
            Back::Lost => true,
            Back::Reply(Ok(Reply::Settled(_))) => {
                self.said[said].settled = true;
                self.counts.add("answer settled");
                false
            }
            Back::Reply(Ok(_)) => false,
            Back::Reply(Err(refusal)) => {
                self.counts.add(match refusal {
                    Refusal::UnknownAsk => "answer refused: unknown ask",
                    Refusal::AlreadySettled(_) => "answer refused: already settled",
                    Refusal::Late { .. } => "answer refused: late",
                    Refusal::HandedBack { .. } => "answer refused: handed back",
                    Refusal::DigestMismatch(_) => "answer refused: digest mismatch",
                    Refusal::OptionNotOffered { .. } => "answer refused: option not offered",
                    Refusal::NotPermitted(_) => "answer refused: not permitted",
                    Refusal::NotRecorded(_) => "answer refused: not recorded",
                    Refusal::NotFullyShown(_) | Refusal::CapReached(_) | Refusal::Malformed(_) => {
                        "answer refused"
                    }
                });
                if let Refusal::NotRecorded(why) = refusal {
                    self.said[said].lost =
                        !why.contains("was recorded cannot be told yet") || why.contains("what came before");
                }
                matches!(refusal, Refusal::NotRecorded(_))
            }
        };
        // Nobody knows whether it counted: people press again.
        if again && self.surfaces[s].desk.is_none() && (!self.chaos || self.dice.percent(60)) {
            let answer = self.said[said].answer.clone();
            let after = self.dice.span(200, 10_000);
            self.soon(after, Happening::Say { surface: s, answer: Box::new(answer) });
        }
    }
}
