//! People: what they do with what they see.

use askd_core::ask::ChoiceKind;
use askd_core::command::{Answer, Command};
use askd_core::{AskId, Decision, SessionKey};

use crate::agent::action;
use crate::surface::Card;
use crate::world::{Happening, World};

impl World {
    fn answer(&mut self, s: usize, card: &Card, decision: Decision) -> Answer {
        let surface = &self.surfaces[s];
        Answer {
            ask: card.id,
            digest: card.digest,
            decision,
            option: None,
            message: self.dice.percent(20).then(|| "not this folder".to_owned()),
            stop: self.dice.percent(10),
            surface: surface.name.clone(),
            remote: surface.plan.remote,
            by: Some(format!("person {s}")),
            refused: None,
        }
    }

    fn either(&mut self) -> Decision {
        if self.dice.percent(60) { Decision::Allow } else { Decision::Deny }
    }

    fn say_soon(&mut self, s: usize, answer: Answer, after: u64) {
        self.soon(after, Happening::Say { surface: s, answer: Box::new(answer) });
    }

    /// A card appears.
    pub(crate) fn consider(&mut self, s: usize, card: &Card) {
        // Before the queue a person answers by keys.
        let queue = self.surfaces[s].desk.is_some();
        if card.handed_back || queue || !self.surfaces[s].covers(&card.root) {
            return;
        }
        let surface = self.surfaces[s].id.0.clone();
        if self.dice.percent(70) {
            let command = Command::Shown {
                ask: card.id,
                surface: surface.clone(),
                remote: self.surfaces[s].plan.remote,
            };
            self.act_soon(s, command, 50);
        }
        if self.dice.percent(5) {
            // It said that it had shown it, and then could not.
            self.counts.add("surface failed");
            let command = Command::SurfaceFailed {
                ask: card.id,
                surface: surface.clone(),
                reason: "the screen is gone".to_owned(),
            };
            self.act_soon(s, command, 5_000);
        }
        if !self.chaos {
            if self.surfaces[s].diligent {
                // A plain yes means an "allow once", and not every agent offers that.
                let plain = card.options.iter().any(|(_, kind)| *kind == ChoiceKind::AllowOnce);
                let decision = if plain { self.either() } else { Decision::Deny };
                let answer = self.answer(s, card, decision);
                let after = self.dice.span(100, 3_000);
                self.say_soon(s, answer, after);
            }
            return;
        }
        if self.surfaces[s].plan.lies {
            self.lie(s, card);
        }
        let decision = self.either();
        let answer = self.answer(s, card, decision);
        let after = self.dice.span(200, 400_000);
        if let Some(deadline) = card.deadline_ms.filter(|_| self.dice.percent(15)) {
            // In the very moment in which the deadline passes, as far as messages take no time.
            self.counts.add("answered at the deadline");
            let early = self.dice.between(0, 40);
            self.say_soon(s, answer, deadline.saturating_sub(early));
            return;
        }
        match self.dice.below(100) {
            0..=29 => {}
            30..=59 => self.say_soon(s, answer, after),
            60..=64 => self.bulk(s, card, after),
            65..=72 => {
                // The same key twice.
                self.say_soon(s, answer.clone(), after);
                let again = after + self.dice.span(1, 2_000);
                self.say_soon(s, answer, again);
            }
            73..=82 => self.opposite(s, card, after),
            83..=85 => {
                let wrong = Answer { digest: action(9).digest(), ..answer };
                let wrong = if wrong.digest == card.digest {
                    Answer { digest: action(1).digest(), ..wrong }
                } else {
                    wrong
                };
                self.say_soon(s, wrong, after);
            }
            86..=89 => {
                let option = Some("sometimes".to_owned());
                self.say_soon(s, Answer { option, ..answer }, after);
            }
            90..=92 => {
                // One that is offered, which may be an "always".
                if !card.options.is_empty() {
                    let (id, kind) = self.dice.pick(&card.options).clone();
                    let decision = kind.decision();
                    self.say_soon(s, Answer { option: Some(id), decision, ..answer }, after);
                }
            }
            93..=94 => {
                let refused = Some("it is inside the agent's own tree".to_owned());
                self.say_soon(s, Answer { refused, ..answer }, after);
            }
            95 => {
                let late = after + 3_600_000;
                self.say_soon(s, answer, late);
            }
            96..=97 => self.act_soon(s, Command::Dismiss { ask: card.id, by: "a person".to_owned() }, after),
            _ => {
                let ask = AskId(self.dice.uuid());
                self.say_soon(s, Answer { ask, ..answer }, after);
            }
        }
    }

    /// People allow what a session asks in the very moment in which its turn is cancelled.
    pub(crate) fn allow_at_once(&mut self, session: &SessionKey) {
        let mine =
            self.ledger.files.values().filter(|f| f.outcome.is_none() && f.ask.lineage.session == *session);
        let cards: Vec<Card> = mine.map(|f| Card::of(&f.ask, f.handed_back.is_some())).collect();
        for card in cards {
            self.counts.add("allowed while the turn was cancelled");
            let s = self.dice.index(self.surfaces.len());
            let answer = self.answer(s, &card, Decision::Allow);
            let after = self.dice.between(0, 30);
            self.say_soon(s, answer, after);
        }
    }

    /// One key for everything on the screen: the cards are those of this moment, whatever comes and goes until the
    /// answers arrive.
    fn bulk(&mut self, s: usize, card: &Card, after: u64) {
        let decision = self.either();
        let mut cards = self.surfaces[s].cards.clone();
        cards.insert(card.id, card.clone());
        if cards.len() > 1 {
            self.counts.add("answered in bulk");
        }
        for card in cards.values() {
            let answer = self.answer(s, card, decision);
            self.say_soon(s, answer, after);
        }
    }

    /// Two people decide differently in the same moment.
    fn opposite(&mut self, s: usize, card: &Card, after: u64) {
        let other = self.dice.index(self.surfaces.len());
        self.counts.add("opposite answers at once");
        let yes = self.answer(s, card, Decision::Allow);
        let no = self.answer(other, card, Decision::Deny);
        self.say_soon(s, yes, after);
        self.say_soon(other, no, after);
    }

    /// A surface claims what is not so.
    fn lie(&mut self, s: usize, card: &Card) {
        self.counts.add("surface lied");
        let nobody = AskId(self.dice.uuid());
        let surface = self.surfaces[s].id.0.clone();
        match self.dice.below(4) {
            0 => self.act_soon(s, Command::Shown { ask: nobody, surface, remote: false }, 1_000),
            1 => {
                let surface = self.surfaces[s].id.clone();
                self.act_soon(s, Command::RemotePolled { surface }, 1_000);
            }
            2 => {
                // A yes that names a no.
                let no = card.options.iter().find(|(_, kind)| kind.decision() == Decision::Deny);
                if let Some((id, _)) = no.cloned() {
                    let answer = self.answer(s, card, Decision::Allow);
                    self.say_soon(s, Answer { option: Some(id), ..answer }, 500);
                }
            }
            _ => {
                let reason = "it was never there".to_owned();
                self.act_soon(s, Command::SurfaceFailed { ask: card.id, surface, reason }, 10);
            }
        }
    }

    /// The requester is gone; people answer all the same.
    pub(crate) fn consider_late(&mut self, s: usize, card: &Card) {
        if self.chaos && self.surfaces[s].covers(&card.root) && self.dice.percent(50) {
            let decision = self.either();
            let mut answer = self.answer(s, card, decision);
            if let Some((id, kind)) = card.options.first().filter(|_| self.dice.percent(10)).cloned() {
                answer.decision = kind.decision();
                answer.option = Some(id);
                if kind == ChoiceKind::AllowAlways {
                    self.counts.add("late always");
                }
            }
            let after = self.dice.span(200, 90_000);
            self.say_soon(s, answer, after);
        }
    }

    pub(crate) fn consider_revoking(&mut self, s: usize, id: AskId) {
        if self.chaos && self.dice.percent(8) {
            self.act_soon(s, Command::RevokeLate { ask: id, by: "a person".to_owned() }, 40_000);
        }
    }

    fn act_soon(&mut self, s: usize, command: Command, within: u64) {
        let after = self.dice.span(1, within.max(2));
        self.soon(after, Happening::Act { surface: s, command: Box::new(command) });
    }

    /// Nothing goes wrong any more, and somebody answers everything.
    pub(crate) fn settle_down(&mut self) {
        for s in 0..self.surfaces.len() {
            if self.surfaces[s].diligent {
                for card in self.surfaces[s].cards.values().cloned().collect::<Vec<_>>() {
                    self.consider(s, &card);
                }
            }
        }
    }
}
