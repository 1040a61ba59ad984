//! Taps on buttons: who may, whether the button is askd's, what it says of the ask as it is now.

use askd_wire::{Answer, Ask, Decision, Problem};
use askd_words as words;

use super::lanes::Job;
use super::{Machine, Out, Waiting, Waits};
use crate::surface::{Now, Wish};
use crate::telegram::seal::{self, Sealed, Verb};
use crate::telegram::shape::{Tap, User};
use crate::telegram::text::{self, Stage};

/// A tap of somebody who may, on a button that reads like one of ours.
#[derive(Debug, Clone)]
pub(super) struct Judged {
    tap: String,
    sealed: Sealed,
    chat: i64,
    message: i64,
    by: Option<String>,
}

impl Machine {
    /// Both sender and chat must be allowed.
    pub(super) fn may(&mut self, user: Option<&User>, chat: i64, out: &mut Out) -> bool {
        let allowed = user.is_some_and(|user| self.setup.users.contains(&user.id));
        if allowed && self.setup.chats.contains(&chat) {
            return true;
        }
        let who = user.map_or(chat, |user| user.id);
        if self.strangers.len() < MOST_STRANGERS && self.strangers.insert(who) {
            let name = user.map(|user| format!("{} (user {})", words::one(&user.name()), user.id));
            let name = name.unwrap_or_else(|| "somebody without a name".to_owned());
            out.wish(Wish::Log(format!("{name} in chat {chat} is not on the lists and is not heard")));
        }
        false
    }

    pub(super) fn tapped(&mut self, tap: Tap, now: Now, out: &mut Out) {
        let Some(place) = tap.message else { return };
        let (chat, message) = (place.chat.id, place.message_id);
        if !self.may(Some(&tap.from), chat, out) {
            return;
        }
        let Some(sealed) = tap.data.as_deref().and_then(seal::open) else {
            return self.toast(&tap.id, "askd does not know this button", out);
        };
        let by = self.name_of(&tap.from);
        let judged = Judged { tap: tap.id, chat, message, by, sealed };
        match self.asks.get(&judged.sealed.ask).cloned() {
            Some(ask) => self.tapped_ask(judged, Some(Box::new(ask)), now, out),
            None => {
                let ticket = self.next();
                out.wish(Wish::Look { ticket, ask: judged.sealed.ask.clone() });
                self.waits = Some(Waits { ticket, what: Waiting::TappedAsk(Box::new(judged)) });
            }
        }
    }

    /// The tapped ask as it is, as far as anybody knows it.
    pub(super) fn tapped_ask(&mut self, judged: Judged, ask: Option<Box<Ask>>, now: Now, out: &mut Out) {
        let Some(ask) = ask else {
            return self.toast(&judged.tap, "askd does not know this ask (any more)", out);
        };
        if !judged.sealed.is_for(&self.key, &ask) {
            out.wish(Wish::Log(format!(
                "a button for {} was not made by this askd; it answered nothing",
                ask.id
            )));
            return self.toast(&judged.tap, "this button was not made by this askd", out);
        }
        self.learn_card(judged.chat, judged.message, &ask.id);
        if !words::is_answerable(&ask) {
            self.toast(&judged.tap, &text::already(&ask, now.wall_ms), out);
            let id = ask.id.clone();
            self.know(*ask);
            return self.bring_up_to_date(&id);
        }
        let (decision, option) = match judged.sealed.verb {
            Verb::DenyWith => {
                self.toast(&judged.tap, "reply to the next message with your words", out);
                return self.push(judged.chat, Job::Prompt { ask: ask.id });
            }
            Verb::Option(at) | Verb::Confirmed(at)
                if ask.options.get(usize::from(at)).is_some_and(|choice| !text::is_whole(choice)) =>
            {
                let text = format!("this is too long to be chosen here: askd show {}", ask.handle);
                return self.toast(&judged.tap, &text, out);
            }
            Verb::Option(at) => return self.set_stage(&judged, &ask, Stage::Confirm(at), out),
            Verb::Back => return self.set_stage(&judged, &ask, Stage::Choose, out),
            Verb::Allow => (Decision::Allow, None),
            Verb::Deny => (Decision::Deny, None),
            Verb::Confirmed(at) => match ask.options.get(usize::from(at)) {
                Some(choice) if words::allows(choice.kind) => (Decision::Allow, Some(choice.id.clone())),
                Some(choice) => (Decision::Deny, Some(choice.id.clone())),
                None => return self.toast(&judged.tap, "the agent does not offer this", out),
            },
        };
        if decision == Decision::Allow && !self.was_shown_whole(&ask, judged.chat, now) {
            let text = format!("not all of {} was shown here; nothing was allowed", ask.handle);
            return self.toast(&judged.tap, &text, out);
        }
        let by = judged.by.clone();
        let wait = Waiting::TapAnswer(Box::new(judged));
        self.answer(&ask, decision, option, None, by, wait, out);
    }

    /// All of the action is in messages of this chat.
    pub(super) fn was_shown_whole(&self, ask: &Ask, chat: i64, now: Now) -> bool {
        let card = text::card(ask, Stage::Choose, &self.key, &self.reader, now.wall_ms);
        // A button to allow is under the last part only, so one that is known from its button alone is whole too.
        card.allowable
            && self.cards.iter().any(|place| place.chat == chat && place.ask == ask.id && place.is_shown())
    }

    #[expect(clippy::too_many_arguments, reason = "each is one fact of an answer")]
    pub(super) fn answer(
        &mut self,
        ask: &Ask,
        decision: Decision,
        option: Option<String>,
        message: Option<String>,
        by: Option<String>,
        what: Waiting,
        out: &mut Out,
    ) {
        let ticket = self.next();
        // The ask was looked at by the seal or by its message; the digest is the one that was shown.
        let answer =
            Answer { decision, digest: ask.digest.clone(), option, message, stop: false, surface: None };
        out.wish(Wish::Answer { ticket, ask: ask.id.clone(), answer, by });
        self.waits = Some(Waits { ticket, what });
    }

    fn set_stage(&mut self, judged: &Judged, ask: &Ask, stage: Stage, out: &mut Out) {
        if let Some(place) = self
            .cards
            .iter_mut()
            .find(|card| card.chat == judged.chat && card.messages.contains(&judged.message))
        {
            place.stage = stage;
        }
        let text = match stage {
            Stage::Confirm(_) => "tap once more to confirm",
            Stage::Choose => "nothing was answered",
        };
        self.toast(&judged.tap, text, out);
        self.push(judged.chat, Job::Edit { ask: ask.id.clone() });
    }

    pub(super) fn tap_answered(
        &mut self,
        judged: Judged,
        result: Result<Box<Ask>, Box<Problem>>,
        now: Now,
        out: &mut Out,
    ) {
        match result {
            Ok(ask) => {
                self.toast(&judged.tap, &text::done(&ask), out);
                self.update_known(*ask);
            }
            Err(problem) => {
                self.toast(&judged.tap, &text::refused(&problem, now.wall_ms, &self.reader), out);
                if let Some(ask) = problem.ask {
                    self.update_known(*ask);
                }
            }
        }
    }

    /// An ask as an answer to it came back.
    pub(super) fn update_known(&mut self, ask: Ask) {
        let id = ask.id.clone();
        self.know(ask);
        self.bring_up_to_date(&id);
    }
}

use super::MOST_STRANGERS;
