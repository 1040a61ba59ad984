//! What is to be sent to each chat: one call at a time, in order, later when the server says so.
//!
//! A job says what it is about; what is sent is made when its turn comes, of the ask as it is then. So nothing that was
//! settled while it waited is shown, and of several edits the last one is the only one.

use std::collections::VecDeque;

use askd_words as words;

use super::cards::remember;
use super::{Machine, Out};
use crate::surface::Now;
use crate::telegram::call::{Call, Refused, Sent};
use crate::telegram::hands::{Deed, Lane};
use crate::telegram::text::{self, Text};

/// Pauses after a call whose fate is not known.
const FIRST_PAUSE_MS: u64 = 1000;
const LONGEST_PAUSE_MS: u64 = 30_000;
/// A server that refuses the bot itself is asked again after this.
const REFUSED_PAUSE_MS: u64 = 60_000;
/// Failures in a row that are told.
const TOLD_AFTER: u32 = 2;
/// Jobs that wait for one chat, besides cards.
const MOST_SAID: usize = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Job {
    /// The next part of the ask's card.
    Part {
        ask: String,
    },
    /// The card's last message as it is to be now.
    Edit {
        ask: String,
    },
    /// The same, also when only the time that is left is another one.
    Refresh {
        ask: String,
    },
    Say {
        text: Text,
        reply_to: Option<i64>,
    },
    /// Asks for words.
    Prompt {
        ask: String,
    },
}

#[derive(Debug, Default)]
pub(super) struct LaneState {
    jobs: VecDeque<Job>,
    /// The server did not like the marks of the job in front.
    plain: bool,
    busy: bool,
    not_before: u64,
    /// Calls in a row whose fate is not known, or that the server was not able to do.
    failures: u32,
    /// When a card whose edit the chat refused is tried again.
    retry_at: Option<u64>,
}

impl LaneState {
    pub(super) fn due(&self) -> Option<u64> {
        let jobs = (!self.jobs.is_empty()).then_some(self.not_before);
        jobs.into_iter().chain(self.retry_at).min().filter(|_| !self.busy)
    }
}

/// A call that is under way.
#[derive(Debug)]
pub(super) struct Flight {
    chat: i64,
    job: Job,
    /// The message that is edited, and what it is to say.
    message: Option<i64>,
    says: Text,
    /// The time that it was written for.
    at: i64,
}

impl Machine {
    pub(super) fn push(&mut self, chat: i64, job: Job) {
        let lane = self.lanes.entry(chat).or_default();
        if lane.jobs.contains(&job) {
            return;
        }
        let said = lane.jobs.iter().filter(|job| matches!(job, Job::Say { .. } | Job::Prompt { .. })).count();
        if matches!(job, Job::Say { .. } | Job::Prompt { .. }) && said >= MOST_SAID {
            return;
        }
        lane.jobs.push_back(job);
    }

    /// Sends text of ours, in as many messages as it needs.
    pub(super) fn say(&mut self, chat: i64, said: &str, reply_to: Option<i64>) {
        for piece in text::pieces(said) {
            self.push(chat, Job::Say { text: Text::of(&piece), reply_to });
        }
    }

    pub(super) fn toast(&mut self, tap: &str, text: &str, out: &mut Out) {
        let number = self.next();
        let call = Call::Toast { tap: tap.to_owned(), text: text::toast(text) };
        out.deed(Deed::Call { lane: Lane::Taps, number, call });
    }

    /// Starts what can be started.
    pub(super) fn run_lanes(&mut self, now: Now, out: &mut Out) {
        if !self.key_is_kept {
            return;
        }
        let chats: Vec<i64> = self.lanes.keys().copied().collect();
        for chat in chats {
            self.retry_stuck(chat, now);
            while let Some(job) = self.lanes.get_mut(&chat).and_then(|lane| {
                let ready = !lane.busy && lane.not_before <= now.ms;
                ready.then(|| lane.jobs.pop_front()).flatten()
            }) {
                let plain = self.lanes.get(&chat).is_some_and(|lane| lane.plain);
                let Some((call, message, says)) = self.call_for(chat, &job, plain, now) else {
                    // There is nothing to do about it any more.
                    self.lane_is_free(chat);
                    continue;
                };
                let number = self.next();
                self.flights.insert(number, Flight { chat, job, message, says, at: now.wall_ms });
                if let Some(lane) = self.lanes.get_mut(&chat) {
                    lane.busy = true;
                }
                out.deed(Deed::Call { lane: Lane::Chat(chat), number, call });
            }
            // What could not be reached and is not wanted any more is no trouble.
            if let Some(lane) = self.lanes.get_mut(&chat)
                && lane.failures > 0
                && !lane.busy
                && lane.jobs.is_empty()
            {
                (lane.failures, lane.not_before) = (0, 0);
                self.chat_trouble.remove(&chat);
            }
        }
    }

    /// The server is there again: what waited for that has its turn.
    pub(super) fn lanes_go_on(&mut self, now: Now) {
        for lane in self.lanes.values_mut().filter(|lane| lane.failures > 0) {
            lane.not_before = lane.not_before.min(now.ms);
        }
    }

    fn lane_is_free(&mut self, chat: i64) {
        if let Some(lane) = self.lanes.get_mut(&chat) {
            (lane.busy, lane.plain) = (false, false);
        }
    }

    fn call_for(&mut self, chat: i64, job: &Job, plain: bool, now: Now) -> Option<(Call, Option<i64>, Text)> {
        match job {
            Job::Say { text, reply_to } => {
                let call = Call::Send {
                    chat,
                    text: text.clone(),
                    buttons: Vec::new(),
                    force_reply: false,
                    reply_to: *reply_to,
                    plain,
                };
                Some((call, None, text.clone()))
            }
            Job::Prompt { ask } => {
                let ask = self.asks.get(ask).filter(|ask| words::is_answerable(ask))?;
                let text = text::prompt(ask);
                let of = self.cards.iter().find(|card| card.chat == chat && card.ask == ask.id);
                let reply_to = of.and_then(|card| card.messages.last().copied());
                let call = Call::Send {
                    chat,
                    text: text.clone(),
                    buttons: Vec::new(),
                    force_reply: true,
                    reply_to,
                    plain,
                };
                Some((call, None, text))
            }
            Job::Part { ask: id } => {
                // Looked at again: it may be settled since it was put here.
                let ask = self.asks.get(id).filter(|ask| words::is_answerable(ask))?;
                let place = self.cards.iter_mut().find(|card| card.chat == chat && card.ask == *id)?;
                if place.is_shown() || place.failed.is_some() {
                    return None;
                }
                let card = text::card(ask, place.stage, &self.key, &self.reader, now.wall_ms);
                place.parts = card.parts.len();
                let at = place.messages.len();
                let text = card.parts.get(at)?.clone();
                let last = at + 1 == card.parts.len();
                let call = Call::Send {
                    chat,
                    text: text.clone(),
                    buttons: if last { card.buttons } else { Vec::new() },
                    force_reply: false,
                    reply_to: place.messages.last().copied(),
                    plain,
                };
                Some((call, None, text))
            }
            Job::Edit { ask: id } | Job::Refresh { ask: id } => {
                let ask = self.asks.get(id)?;
                let anew = matches!(job, Job::Refresh { .. });
                let open = words::is_answerable(ask);
                let is_it = |card: &&mut super::cards::CardPlace| card.chat == chat && card.ask == *id;
                let card = |stage, at| text::card(ask, stage, &self.key, &self.reader, at);
                let last = |stage, at| card(stage, at).parts.pop();
                // There may be several, when a sending was not confirmed.
                for place in self.cards.iter_mut().filter(is_it) {
                    if place.stuck || (open && !place.is_shown()) {
                        continue;
                    }
                    let Some(message) = place.messages.last().copied() else { continue };
                    if let Some((says, at)) = &place.says {
                        // Written for the same moment: a countdown alone is no change.
                        let at = if anew { now.wall_ms } else { *at };
                        if last(place.stage, at).as_ref() == Some(says) {
                            continue;
                        }
                    }
                    let mut card = card(place.stage, now.wall_ms);
                    let Some(text) = card.parts.pop() else { continue };
                    let call = Call::Edit { chat, message, text: text.clone(), buttons: card.buttons, plain };
                    return Some((call, Some(message), text));
                }
                if !open {
                    // One that never came needs no end.
                    self.cards
                        .retain(|card| card.ask != *id || card.chat != chat || !card.messages.is_empty());
                }
                None
            }
        }
    }

    /// A call came to its end.
    pub(super) fn sent(&mut self, number: u64, sent: Sent, now: Now, out: &mut Out) {
        if let Some(waits) = self.waits.take_if(|waits| waits.ticket == number) {
            return self.named(waits, sent, now);
        }
        // Answers to taps have no flight: a tap that is too old for one is told by the card.
        let Some(flight) = self.flights.remove(&number) else { return };
        let chat = flight.chat;
        if let Some(lane) = self.lanes.get_mut(&chat) {
            lane.busy = false;
        }
        match sent {
            // A card whose message has no number could never be ended.
            Sent::Done(result) if result["message_id"].is_null() => {
                self.later(flight, "the Bot API server's reply is not what it should be", None, now);
            }
            Sent::Done(result) => {
                self.chat_works(chat);
                let id = result["message_id"].as_i64();
                self.done(flight, id, out);
            }
            Sent::Refused(refused) => self.refused(flight, &refused, now, out),
            Sent::Unreachable(why) => self.later(flight, &why, None, now),
        }
    }

    fn chat_works(&mut self, chat: i64) {
        if let Some(lane) = self.lanes.get_mut(&chat) {
            (lane.failures, lane.not_before, lane.plain) = (0, 0, false);
        }
        self.chat_trouble.remove(&chat);
        self.free_stuck(chat);
    }

    /// Cards whose edit the chat refused are tried again.
    fn free_stuck(&mut self, chat: i64) {
        let mut asks = Vec::new();
        for place in self.cards.iter_mut().filter(|card| card.chat == chat && card.stuck) {
            place.stuck = false;
            asks.push(place.ask.clone());
        }
        for ask in asks {
            self.push(chat, Job::Edit { ask });
        }
    }

    /// The same, when it is time for that.
    fn retry_stuck(&mut self, chat: i64, now: Now) {
        let Some(lane) = self.lanes.get_mut(&chat) else { return };
        if !lane.busy && lane.retry_at.take_if(|at| *at <= now.ms).is_some() {
            self.free_stuck(chat);
        }
    }

    /// How this bot is called; the update in front has its turn again.
    fn named(&mut self, waits: super::Waits, sent: Sent, now: Now) {
        match (waits.what, sent) {
            (super::Waiting::Name, Sent::Done(me)) => {
                self.name = Some(me["username"].as_str().unwrap_or_default().to_owned());
            }
            // Whoever is not told its own name is not called by it.
            (super::Waiting::Name, Sent::Refused(refused)) if refused.code < 500 && refused.code != 429 => {
                self.update_done();
                self.dirty = true;
            }
            _ => self.update_later(now),
        }
    }

    fn done(&mut self, flight: Flight, id: Option<i64>, out: &mut Out) {
        let Flight { chat, job, message, says, at } = flight;
        match job {
            Job::Say { .. } => {}
            Job::Prompt { ask } => {
                if let Some(id) = id {
                    remember(&mut self.prompts, (chat, id, ask));
                    self.dirty = true;
                }
            }
            Job::Part { ask } => {
                let Some(place) = self.cards.iter_mut().find(|card| {
                    card.chat == chat && card.ask == ask && card.failed.is_none() && !card.is_shown()
                }) else {
                    return;
                };
                place.messages.extend(id);
                place.says = Some((says, at));
                self.dirty = true;
                if !place.is_shown() {
                    // Before anything else, so that the parts stand together.
                    if let Some(lane) = self.lanes.get_mut(&chat) {
                        lane.jobs.push_front(Job::Part { ask: ask.clone() });
                    }
                }
                self.report_card(&ask, out);
                // It may have changed, or be over, since this was written.
                self.push(chat, Job::Edit { ask });
            }
            Job::Edit { ask } | Job::Refresh { ask } => {
                if let Some(message) = message {
                    self.edited(chat, message, &ask, Some((says, at)));
                }
            }
        }
    }

    /// The message says this now, or it says what it says for ever.
    fn edited(&mut self, chat: i64, message: i64, ask: &str, says: Option<(Text, i64)>) {
        let Some((text, at)) = says else { return self.finish_card(chat, message) };
        // Written before the ask was over, it still has its buttons, and is not at rest.
        let over = self.asks.get(ask).is_some_and(|ask| {
            let now = || text::card(ask, text::Stage::Choose, &self.key, &self.reader, at).parts.pop();
            !words::is_answerable(ask) && now().as_ref() == Some(&text)
        });
        let is_it =
            |card: &&mut super::cards::CardPlace| card.chat == chat && card.messages.last() == Some(&message);
        for place in self.cards.iter_mut().filter(is_it) {
            place.says = Some((text.clone(), at));
        }
        // What became of an outcome may still change; until its turn to be forgotten the card is known.
        if over {
            self.rest_card(chat, message);
        }
        // Another message of the same ask, or a newer state.
        self.push(chat, Job::Edit { ask: ask.to_owned() });
    }

    fn refused(&mut self, flight: Flight, refused: &Refused, now: Now, out: &mut Out) {
        let chat = flight.chat;
        let said = refused.description.to_lowercase();
        let has = |part: &str| said.contains(part);
        match refused.code {
            429 => {
                let wait = refused.retry_after.unwrap_or(1).clamp(1, 3600);
                self.again(flight, now.ms + wait * 1000);
            }
            401 | 404 if !has("chat") && !has("message") => {
                let why = format!("the server refuses the bot's token ({})", refused.description);
                self.later(flight, &why, Some(REFUSED_PAUSE_MS), now);
            }
            500.. => {
                self.later(flight, &format!("the Bot API server has a fault ({})", refused.code), None, now)
            }
            400 if has("can't parse entities") || has("entity") => {
                let plain = self.lanes.get(&chat).is_some_and(|lane| lane.plain);
                if plain {
                    self.give_up(flight, refused, now, out);
                } else {
                    if let Some(lane) = self.lanes.get_mut(&chat) {
                        lane.plain = true;
                        lane.jobs.push_front(flight.job);
                    }
                }
            }
            400 if has("not modified") => {
                self.chat_works(chat);
                if let (Job::Edit { ask } | Job::Refresh { ask }, Some(message)) =
                    (flight.job, flight.message)
                {
                    self.edited(chat, message, &ask, Some((flight.says, flight.at)));
                }
            }
            _ => self.give_up(flight, refused, now, out),
        }
    }

    /// The server will not do it.
    fn give_up(&mut self, flight: Flight, refused: &Refused, now: Now, out: &mut Out) {
        let Flight { chat, job, message, .. } = flight;
        if let Some(lane) = self.lanes.get_mut(&chat) {
            lane.failures = 0;
        }
        self.lane_is_free(chat);
        let why = match refused.migrate_to {
            Some(new) => format!("chat {chat} is a supergroup now: put {new} into telegram.chat_ids instead"),
            None => format!("chat {chat}: {}", refused.description),
        };
        match job {
            Job::Edit { ask } | Job::Refresh { ask } => {
                let said = refused.description.to_lowercase();
                let never = ["message to edit not found", "message can't be edited", "message_id_invalid"];
                if let Some(message) = message {
                    if never.iter().any(|never| said.contains(never)) {
                        self.edited(chat, message, &ask, None);
                    } else {
                        // Its buttons are still there, and whoever blocked the bot may let it in again.
                        self.stick(chat, message, now);
                        self.chat_trouble.insert(chat, why);
                    }
                }
                self.push(chat, Job::Edit { ask });
            }
            Job::Part { ask } => {
                if let Some(place) = self.cards.iter_mut().find(|card| card.chat == chat && card.ask == ask) {
                    place.failed = Some(why.clone());
                }
                self.chat_trouble.insert(chat, why);
                self.report_card(&ask, out);
            }
            Job::Say { .. } | Job::Prompt { .. } => {
                self.chat_trouble.insert(chat, why);
            }
        }
    }

    fn stick(&mut self, chat: i64, message: i64, now: Now) {
        let is_it =
            |card: &&mut super::cards::CardPlace| card.chat == chat && card.messages.last() == Some(&message);
        // There may be two of one message: a tap on it can come before the reply to its sending.
        for place in self.cards.iter_mut().filter(is_it) {
            (place.stuck, place.rests) = (true, false);
        }
        if let Some(lane) = self.lanes.get_mut(&chat) {
            lane.retry_at = Some(now.ms + REFUSED_PAUSE_MS);
        }
    }

    /// Once more, after a pause that grows.
    fn later(&mut self, flight: Flight, why: &str, pause: Option<u64>, now: Now) {
        let chat = flight.chat;
        let Some(lane) = self.lanes.get_mut(&chat) else { return };
        lane.failures = lane.failures.saturating_add(1);
        let grown = FIRST_PAUSE_MS << lane.failures.saturating_sub(1).min(5);
        let pause = pause.unwrap_or_else(|| grown.min(LONGEST_PAUSE_MS));
        if lane.failures >= TOLD_AFTER {
            self.chat_trouble.insert(chat, why.to_owned());
        }
        self.again(flight, now.ms + pause);
    }

    fn again(&mut self, flight: Flight, at: u64) {
        if let Some(lane) = self.lanes.get_mut(&flight.chat) {
            lane.not_before = lane.not_before.max(at);
            if !lane.jobs.contains(&flight.job) || matches!(flight.job, Job::Part { .. }) {
                lane.jobs.retain(|job| *job != flight.job);
                lane.jobs.push_front(flight.job);
            }
        }
    }
}
