//! The threads that make calls: one for each chat, so that a chat that has to wait holds no other; one for answers to
//! taps; one for the poll, with a connection of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use super::Telegram;
use super::api::Api;
use super::call::{Call, Sent};
use crate::surface::{Back, Hands};

/// Calls of one lane are made one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    Chat(i64),
    Taps,
}

/// What the machine wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    /// At most one at a time in each lane; its result comes back with the same number.
    Call { lane: Lane, number: u64, call: Call },
    /// Any poll before it is given up: its updates come again by this one.
    Poll { number: u64, offset: i64, timeout_secs: u64 },
}

/// What comes back.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    Sent { number: u64, sent: Sent },
    Polled { number: u64, sent: Sent },
}

/// Makes the calls of one bot.
#[derive(Debug)]
pub struct BotHands {
    api: Api,
    lanes: HashMap<Lane, Sender<(u64, Call)>>,
    poll: Option<Sender<(u64, Call, Duration)>>,
    /// A poll is under way on the thread that `poll` leads to.
    polling: Arc<AtomicBool>,
}

impl BotHands {
    pub fn new(api: Api) -> Self {
        Self { api, lanes: HashMap::new(), poll: None, polling: Arc::default() }
    }

    fn lane(&mut self, lane: Lane, back: &Back<Heard>) -> Option<&Sender<(u64, Call)>> {
        if !self.lanes.contains_key(&lane) {
            let (sender, jobs) = channel::<(u64, Call)>();
            let (line, back) = (self.api.line(), back.clone());
            let thread = thread::Builder::new().name("telegram-send".to_owned()).spawn(move || {
                for (number, call) in jobs {
                    let sent = line.call(call.method(), &call.body(), Duration::ZERO);
                    back.give(Heard::Sent { number, sent });
                }
            });
            thread.ok()?;
            self.lanes.insert(lane, sender);
        }
        self.lanes.get(&lane)
    }

    fn poll(&mut self, number: u64, call: Call, wait: Duration, back: &Back<Heard>) {
        // One that is under way may hang on a connection that died: it is left to its end, and nobody hears it.
        if self.polling.load(Ordering::SeqCst) {
            self.poll = None;
        }
        if self.poll.is_none() {
            let (sender, jobs) = channel::<(u64, Call, Duration)>();
            let (line, results) = (self.api.line(), back.clone());
            let polling = Arc::new(AtomicBool::new(false));
            self.polling = Arc::clone(&polling);
            let thread = thread::Builder::new().name("telegram-poll".to_owned()).spawn(move || {
                for (number, call, wait) in jobs {
                    let sent = line.call(call.method(), &call.body(), wait);
                    polling.store(false, Ordering::SeqCst);
                    results.give(Heard::Polled { number, sent });
                }
            });
            if thread.is_err() {
                let sent = Sent::Unreachable("no thread can be made for the poll".to_owned());
                return back.give(Heard::Polled { number, sent });
            }
            self.poll = Some(sender);
        }
        self.polling.store(true, Ordering::SeqCst);
        if let Some(poll) = &self.poll {
            let _ = poll.send((number, call, wait));
        }
    }
}

impl Hands<Telegram> for BotHands {
    fn act(&mut self, deed: Deed, back: &Back<Heard>) {
        match deed {
            Deed::Call { lane, number, call } => {
                let given = self.lane(lane, back).is_some_and(|jobs| jobs.send((number, call)).is_ok());
                if !given {
                    let sent = Sent::Unreachable("no thread can be made for the call".to_owned());
                    back.give(Heard::Sent { number, sent });
                }
            }
            Deed::Poll { number, offset, timeout_secs } => {
                let call = Call::Poll { offset, timeout_secs };
                self.poll(number, call, Duration::from_secs(timeout_secs), back);
            }
        }
    }
}
