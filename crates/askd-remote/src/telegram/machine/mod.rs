//! The bot as a pure machine: asks, updates, results of calls and time go in, wishes and calls come out.
//!
//! What it holds: asks that have a slot here ([`Machine::asks`]), the cards of each chat (`cards`), what is to be sent to
//! each chat (`lanes`), and updates that wait for their turn (`updates`). An update is done when the daemon has answered
//! for it; only then the number behind it is kept in the journal, and only then the server is told that it can forget it.
//! So a crash at any step brings an update back, and a tap that comes twice finds its ask settled.

mod cards;
mod kept;
mod lanes;
mod messages;
mod poll;
mod taps;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use askd_wire::{Ask, Problem};
use askd_words as words;
use serde_json::Value;

use super::hands::{Deed, Heard};
use super::seal::Key;
use super::shape::Update;
use super::text::Reader;
use crate::surface::{About, Now, Out as AnyOut, Reply, Surface, Ticket, Told, Wish};
use cards::CardPlace;
use lanes::{Flight, LaneState};

pub(super) type Out = AnyOut<Deed>;

/// Asks that are over and still known without asking the daemon.
const MOST_PAST: usize = 256;
/// A countdown on a card is brought up to date so often.
const REFRESH_MS: u64 = 60_000;
/// Until the daemon is asked again what it was not able to say.
const LOOK_PAUSE_MS: u64 = 1000;
/// When an open ask is looked up again of which nobody tells.
const WATCH_PAUSE_MS: u64 = 15_000;
/// Notices that are passed on in a minute.
const MOST_NOTICES: usize = 5;
/// Strangers that are told of in the log.
const MOST_STRANGERS: usize = 1000;

/// Who the bot talks to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The bot's own number, the first part of its token.
    pub bot: i64,
    pub chats: Vec<i64>,
    pub users: Vec<i64>,
    pub max_open: u32,
}

/// One bot.
#[derive(Debug)]
pub struct Machine {
    setup: Setup,
    reader: Reader,
    key: Key,
    /// The journal has the key: before that no button is made, for the next life would not know it.
    key_is_kept: bool,
    /// By id: those that this surface holds, and some that are over.
    asks: BTreeMap<String, Ask>,
    past: VecDeque<String>,
    /// Asks of which [`Wish::Shown`] or [`Wish::Failed`] was said.
    reported: BTreeSet<String>,
    cards: Vec<CardPlace>,
    /// Messages that asked for words: chat, message, ask.
    prompts: VecDeque<(i64, i64, String)>,
    /// Cards that are over, for replies to them: chat, message, ask.
    old: VecDeque<(i64, i64, String)>,
    /// The bot's name behind an `@`, once it was needed.
    name: Option<String>,
    lanes: BTreeMap<i64, LaneState>,
    flights: BTreeMap<u64, Flight>,
    number: u64,
    /// Updates that are not done, oldest first.
    updates: VecDeque<Update>,
    /// The next update that the server is asked for.
    offset: i64,
    /// When the last update came.
    heard_at: i64,
    /// What the update in front waits for.
    waits: Option<Waits>,
    poll: poll::Poll,
    /// Something changed that is to be kept.
    dirty: bool,
    /// Asked again for what cards in the journal are about.
    looking: BTreeMap<Ticket, String>,
    /// When they are asked again about what the daemon was not able to say.
    look_at: Option<u64>,
    listing: BTreeMap<Ticket, (i64, Option<i64>)>,
    refresh_at: Option<u64>,
    strangers: BTreeSet<i64>,
    notices: VecDeque<u64>,
    told: Option<String>,
    /// Trouble of one chat, by chat.
    chat_trouble: BTreeMap<i64, String>,
    began: bool,
}

/// The update in front waits for the daemon.
#[derive(Debug)]
struct Waits {
    ticket: Ticket,
    what: Waiting,
}

#[derive(Debug)]
enum Waiting {
    /// The ask of a tap that is not known here.
    TappedAsk(Box<taps::Judged>),
    /// An answer by a tap.
    TapAnswer(Box<taps::Judged>),
    /// The ask of a reply that is not known here.
    RepliedAsk(Box<messages::Said>),
    /// An answer by a reply.
    ReplyAnswer(Box<messages::Said>),
    /// How this bot is called.
    Name,
    /// The reply to a command.
    Command { chat: i64, message: i64 },
}

impl Machine {
    /// `fresh`: random bytes for the first start of an installation.
    pub fn new(setup: Setup, reader: Reader, fresh: Key) -> Self {
        Self {
            setup,
            reader,
            key: fresh,
            key_is_kept: false,
            asks: BTreeMap::new(),
            past: VecDeque::new(),
            reported: BTreeSet::new(),
            cards: Vec::new(),
            prompts: VecDeque::new(),
            old: VecDeque::new(),
            name: None,
            lanes: BTreeMap::new(),
            flights: BTreeMap::new(),
            number: 0,
            updates: VecDeque::new(),
            offset: 0,
            heard_at: 0,
            waits: None,
            poll: poll::Poll::default(),
            dirty: false,
            looking: BTreeMap::new(),
            look_at: None,
            listing: BTreeMap::new(),
            refresh_at: None,
            strangers: BTreeSet::new(),
            notices: VecDeque::new(),
            told: None,
            chat_trouble: BTreeMap::new(),
            began: false,
        }
    }

    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Takes an ask as it now is; one that is over stays known for a while.
    fn know(&mut self, ask: Ask) {
        if !words::is_answerable(&ask) && !self.past.contains(&ask.id) {
            if self.past.len() >= MOST_PAST
                && let Some(gone) = self.past.pop_front()
            {
                self.lay_off_cards(&gone);
                if self.cards.iter().any(|card| card.ask == gone) {
                    self.past.push_back(gone);
                } else {
                    self.asks.remove(&gone);
                    self.reported.remove(&gone);
                }
            }
            self.past.push_back(ask.id.clone());
        }
        self.asks.insert(ask.id.clone(), ask);
    }

    /// Tells what does not work, when that is news.
    fn tell_trouble(&mut self, out: &mut Out) {
        let keeping = self.poll.keep_trouble();
        let trouble = keeping
            .or_else(|| self.poll.trouble.clone())
            .or_else(|| self.chat_trouble.values().next().cloned());
        if trouble != self.told {
            self.told.clone_from(&trouble);
            out.wish(Wish::Trouble(trouble));
        }
    }

    fn name_of(&self, user: &super::shape::User) -> Option<String> {
        // With one person allowed it is the one who reads this.
        (self.setup.users.len() > 1).then(|| words::one(&user.name()))
    }

    fn wants_refresh(&self) -> bool {
        self.cards.iter().any(|card| {
            card.is_shown()
                && self
                    .asks
                    .get(&card.ask)
                    .is_some_and(|ask| words::is_answerable(ask) && ask.deadline.is_some())
        })
    }

    fn plan_refresh(&mut self, now: Now) {
        self.refresh_at = match (self.wants_refresh(), self.refresh_at) {
            (false, _) => None,
            (true, Some(at)) => Some(at),
            (true, None) => Some(now.ms + REFRESH_MS),
        };
    }

    /// After everything that may have changed something.
    fn settle(&mut self, now: Now, out: &mut Out) {
        self.run_lanes(now, out);
        self.plan_refresh(now);
        self.tell_trouble(out);
        self.go_on(now, out);
    }
}

/// The refusal means that nothing was written and it may be asked again.
fn is_not_recorded(problem: &Problem) -> bool {
    problem.code == askd_wire::Code::NotRecorded
}

impl Surface for Machine {
    type Heard = Heard;
    type Deed = Deed;

    fn about(&self) -> About {
        About { name: super::NAME, capacity: Some(self.setup.max_open), onlooker: false }
    }

    fn begin(&mut self, kept: Option<Value>, asks: Vec<Ask>, now: Now, out: &mut Out) {
        if !self.began {
            if let Some(kept) = kept {
                self.take_kept(&kept);
            }
            self.dirty = true;
            self.began = true;
        }
        self.waits = None;
        self.updates.clear();
        self.looking.clear();
        self.look_at = None;
        self.listing.clear();
        // Whatever was told of a life before.
        self.told = None;
        out.wish(Wish::Trouble(None));
        let held: BTreeSet<String> = asks.iter().map(|ask| ask.id.clone()).collect();
        for ask in asks {
            self.reported.remove(&ask.id);
            self.know(ask);
        }
        // Whatever is not open here any more became something meanwhile.
        let gone: BTreeSet<String> =
            self.cards.iter().map(|card| card.ask.clone()).filter(|ask| !held.contains(ask)).collect();
        for ask in gone {
            let ticket = self.next();
            self.looking.insert(ticket, ask.clone());
            out.wish(Wish::Look { ticket, ask });
        }
        for ask in held {
            self.show_everywhere(&ask, now, out);
        }
        self.poll.begin();
        self.settle(now, out);
    }

    fn show(&mut self, ask: Ask, now: Now, out: &mut Out) {
        let id = ask.id.clone();
        self.looking.retain(|_, looked| *looked != id);
        self.know(ask);
        self.show_everywhere(&id, now, out);
        self.settle(now, out);
    }

    fn update(&mut self, ask: Ask, _what: &str, now: Now, out: &mut Out) {
        let id = ask.id.clone();
        self.know(ask);
        self.bring_up_to_date(&id);
        self.settle(now, out);
    }

    fn replied(&mut self, reply: Reply, now: Now, out: &mut Out) {
        match reply {
            Reply::Kept { done } => self.was_kept(done, now),
            Reply::Looked { ticket, ask } if self.looking.contains_key(&ticket) => {
                if let Some(id) = self.looking.remove(&ticket) {
                    match ask {
                        Some(ask) => {
                            let open = words::is_answerable(&ask);
                            self.know(*ask);
                            self.bring_up_to_date(&id);
                            if open {
                                // No slot is free for it now, so nobody tells what becomes of it; its card of a life
                                // before is live all the same.
                                let again = self.next();
                                self.looking.insert(again, id);
                                self.look_at.get_or_insert(now.ms + WATCH_PAUSE_MS);
                            }
                        }
                        // Too long ago: nobody can say what became of it.
                        None => self.forget_cards(&id),
                    }
                }
            }
            Reply::Listed { ticket, asks } => {
                if let Some((chat, message)) = self.listing.remove(&ticket) {
                    let text = super::text::list(&asks, &self.reader, now.wall_ms);
                    self.say(chat, &text, message);
                }
            }
            // Nothing is known of it that was not known before.
            Reply::Failed { ticket, .. } if self.looking.contains_key(&ticket) => {
                self.look_at = Some(now.ms + LOOK_PAUSE_MS);
            }
            Reply::Failed { ticket, why } if self.listing.contains_key(&ticket) => {
                if let Some((chat, message)) = self.listing.remove(&ticket) {
                    let text = format!("The list cannot be told now: {}", words::one(&why));
                    self.say(chat, &text, message);
                }
            }
            // The next beginning brings the update again.
            Reply::Lost { .. } => {}
            other => self.update_heard(other, now, out),
        }
        self.settle(now, out);
    }

    fn heard(&mut self, heard: Heard, now: Now, out: &mut Out) {
        match heard {
            Heard::Sent { number, sent } => self.sent(number, sent, now, out),
            Heard::Polled { number, sent } => self.polled(number, sent, now),
        }
        self.settle(now, out);
    }

    fn told(&mut self, told: Told, now: Now, out: &mut Out) {
        match told {
            Told::Woke => self.poll.begin(),
            Told::Notice(text) => self.pass_notice(&text, now),
        }
        self.settle(now, out);
    }

    fn due(&self) -> Option<u64> {
        let lanes = self.lanes.values().filter(|_| self.key_is_kept).filter_map(LaneState::due);
        lanes.chain(self.refresh_at).chain(self.look_at).chain(self.poll.due()).chain(self.keep_due()).min()
    }

    fn tick(&mut self, now: Now, out: &mut Out) {
        if self.refresh_at.is_some_and(|at| at <= now.ms) {
            self.refresh_at = None;
            self.refresh_countdowns();
        }
        if self.look_at.is_some_and(|at| at <= now.ms) {
            self.look_at = None;
            for (ticket, ask) in self.looking.clone() {
                out.wish(Wish::Look { ticket, ask });
            }
        }
        self.settle(now, out);
    }
}

impl Machine {
    /// What every surface is told, without what this one said itself.
    fn pass_notice(&mut self, text: &str, now: Now) {
        let text = words::plain(text);
        if text.starts_with(super::NAME) {
            return;
        }
        while self.notices.front().is_some_and(|at| at + 60_000 <= now.ms) {
            self.notices.pop_front();
        }
        if self.notices.len() < MOST_NOTICES {
            self.notices.push_back(now.ms);
            for chat in self.setup.chats.clone() {
                self.say(chat, &text, None);
            }
        }
    }
}
