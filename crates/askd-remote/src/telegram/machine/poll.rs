//! Fetching updates: one poll at a time, each after everything of the one before it is done and kept.

use super::{Machine, Out, Waiting};
use crate::surface::{Now, Reply, Wish};
use crate::telegram::call::{MOST_UPDATES, Refused, Sent};
use crate::telegram::hands::Deed;
use crate::telegram::shape::Update;

/// How long the server holds a poll for news.
const HOLD_SECS: u64 = 25;
const FIRST_PAUSE_MS: u64 = 1000;
const LONGEST_PAUSE_MS: u64 = 30_000;
/// Another program polls with this token, or a webhook is set: no use in asking often.
const CONFLICT_PAUSE_MS: u64 = 10_000;
/// Failures in a row that are told.
const TOLD_AFTER: u32 = 2;
/// Less than the week after which updates are numbered anew.
const SILENCE_MS: i64 = 6 * 24 * 3600 * 1000;

#[derive(Debug, Default)]
pub(super) struct Poll {
    /// The number of the one that is under way.
    number: Option<u64>,
    /// Since the beginning or the wake it is not known that everything that waited was fetched.
    behind: bool,
    /// The last poll brought as much as one may: there can be more.
    full: bool,
    /// The state is on its way to the journal.
    pub(super) keeping: bool,
    /// When the state may be given again after it was not taken.
    pub(super) keep_at: u64,
    pub(super) keep_failures: u32,
    pub(super) not_before: u64,
    failures: u32,
    wanted: bool,
    pub(super) trouble: Option<String>,
}

impl Poll {
    /// From here on everything that waits is to be fetched before it is said that it was. A poll under way is given up:
    /// it may hang on a connection that died in its sleep.
    pub(super) fn begin(&mut self) {
        (self.number, self.behind, self.full, self.wanted) = (None, true, false, true);
        (self.keeping, self.keep_at, self.not_before) = (false, 0, 0);
    }

    /// What is told while the journal does not take the state.
    pub(super) fn keep_trouble(&self) -> Option<String> {
        let text = "the journal does not take what Telegram has to keep (is the disk full?): taps wait until it does";
        (self.keep_failures >= TOLD_AFTER).then(|| text.to_owned())
    }

    pub(super) fn due(&self) -> Option<u64> {
        (self.wanted && self.number.is_none() && !self.keeping).then_some(self.not_before)
    }
}

impl Machine {
    /// The next update, or what follows the last one: keep, say that all was fetched, poll again.
    pub(super) fn go_on(&mut self, now: Now, out: &mut Out) {
        while self.waits.is_none()
            && self.poll.not_before <= now.ms
            && let Some(update) = self.updates.front().cloned()
        {
            self.take(update, now, out);
            self.run_lanes(now, out);
            if self.waits.is_none() {
                self.update_done();
            }
        }
        let idle = self.waits.is_none() && self.updates.is_empty();
        if !idle || self.poll.keeping || !self.began {
            return;
        }
        if self.dirty {
            if self.poll.keep_at <= now.ms {
                self.keep(out);
            }
            return;
        }
        if self.poll.number.is_some() || self.poll.not_before > now.ms {
            return;
        }
        if self.poll.behind && !self.poll.wanted && !self.poll.full {
            self.poll.behind = false;
            out.wish(Wish::Polled);
        }
        // After a week of silence the server begins to count anywhere: what it confirmed is gone by then.
        if now.wall_ms - self.heard_at > SILENCE_MS {
            self.offset = 0;
        }
        let number = self.next();
        self.poll.number = Some(number);
        self.poll.wanted = false;
        let timeout_secs = if self.poll.behind || self.poll.failures > 0 { 0 } else { HOLD_SECS };
        out.deed(Deed::Poll { number, offset: self.offset, timeout_secs });
    }

    /// The update in front is done: the server may forget it as soon as that is kept.
    pub(super) fn update_done(&mut self) {
        if let Some(update) = self.updates.pop_front() {
            self.offset = self.offset.max(update.update_id.saturating_add(1));
        }
    }

    /// The state is to be given to the journal, and nothing else will bring that about.
    pub(super) fn keep_due(&self) -> Option<u64> {
        let wants = self.dirty && self.began && !self.poll.keeping && self.waits.is_none();
        let after = if self.updates.is_empty() { 0 } else { self.poll.not_before };
        wants.then(|| self.poll.keep_at.max(after))
    }

    /// The update in front cannot be done now. It stays, and its turn comes again.
    pub(super) fn update_later(&mut self, now: Now) {
        self.waits = None;
        self.poll.wanted = true;
        self.poll.not_before = now.ms + FIRST_PAUSE_MS;
    }

    fn take(&mut self, update: Update, now: Now, out: &mut Out) {
        if let Some(tap) = update.callback_query {
            self.tapped(tap, now, out);
        } else if let Some(message) = update.message {
            self.said(message, now, out);
        }
    }

    /// The daemon replied about the update in front.
    pub(super) fn update_heard(&mut self, reply: Reply, now: Now, out: &mut Out) {
        let ticket = match &reply {
            Reply::Answered { ticket, .. } | Reply::Looked { ticket, .. } | Reply::Text { ticket, .. } => {
                *ticket
            }
            Reply::Failed { ticket, .. } => *ticket,
            Reply::Listed { .. } | Reply::Kept { .. } | Reply::Lost { .. } => return,
        };
        let Some(waits) = self.waits.take_if(|waits| waits.ticket == ticket) else { return };
        if let Reply::Answered { result: Err(problem), .. } = &reply
            && super::is_not_recorded(problem)
        {
            // Nothing was written: the tap is not lost, and not answered either.
            return self.update_later(now);
        }
        if matches!(reply, Reply::Failed { .. }) {
            return self.update_later(now);
        }
        match (waits.what, reply) {
            (Waiting::TappedAsk(judged), Reply::Looked { ask, .. }) => {
                self.tapped_ask(*judged, ask, now, out)
            }
            (Waiting::TapAnswer(judged), Reply::Answered { result, .. }) => {
                self.tap_answered(*judged, result, now, out);
            }
            (Waiting::RepliedAsk(said), Reply::Looked { ask, .. }) => self.replied_ask(*said, ask, now, out),
            (Waiting::ReplyAnswer(said), Reply::Answered { result, .. }) => {
                self.reply_answered(&said, result, now);
            }
            (Waiting::Command { chat, message }, Reply::Text { text, .. }) => {
                let text = text.unwrap_or_else(|why| why);
                self.say(chat, &askd_text::safe_lines(&text).lines.join("\n"), Some(message));
            }
            _ => {}
        }
        if self.waits.is_none() {
            self.update_done();
            // Before the server is told to forget it.
            self.dirty = true;
        }
    }

    /// A poll came to its end.
    pub(super) fn polled(&mut self, number: u64, sent: Sent, now: Now) {
        if self.poll.number != Some(number) {
            return;
        }
        self.poll.number = None;
        match sent {
            Sent::Done(result) => {
                let list = result.as_array().cloned().unwrap_or_default();
                self.poll.full = list.len() >= MOST_UPDATES;
                let mut updates: Vec<Update> = list.into_iter().filter_map(Update::read).collect();
                updates.sort_by_key(|update| update.update_id);
                updates.retain(|update| update.update_id >= self.offset);
                if !updates.is_empty() {
                    self.heard_at = now.wall_ms;
                }
                self.updates = updates.into();
                if self.poll.failures > 0 {
                    self.lanes_go_on(now);
                }
                (self.poll.failures, self.poll.trouble) = (0, None);
                self.poll.wanted = false;
            }
            Sent::Refused(refused) => self.poll_refused(&refused, now),
            Sent::Unreachable(why) => {
                self.poll.wanted = true;
                self.poll.failures = self.poll.failures.saturating_add(1);
                let pause =
                    (FIRST_PAUSE_MS << self.poll.failures.saturating_sub(1).min(5)).min(LONGEST_PAUSE_MS);
                self.poll.not_before = now.ms + pause;
                if self.poll.failures >= TOLD_AFTER {
                    self.poll.trouble = Some(why);
                }
            }
        }
    }

    fn poll_refused(&mut self, refused: &Refused, now: Now) {
        self.poll.wanted = true;
        self.poll.failures = self.poll.failures.saturating_add(1);
        let pause = match refused.code {
            429 => refused.retry_after.unwrap_or(1).clamp(1, 3600) * 1000,
            409 => CONFLICT_PAUSE_MS,
            401 | 404 => 2 * LONGEST_PAUSE_MS,
            _ => (FIRST_PAUSE_MS << self.poll.failures.min(5)).min(LONGEST_PAUSE_MS),
        };
        self.poll.not_before = now.ms + pause;
        let webhook = refused.description.to_lowercase().contains("webhook");
        let trouble = match refused.code {
            409 if webhook => {
                "a webhook is set for this bot, so it cannot be polled: use a bot of its own for askd"
                    .to_owned()
            }
            409 => format!(
                "another program polls with this bot's token, perhaps a second askd: use a bot of its own for each ({})",
                refused.description
            ),
            401 | 404 => format!("the server refuses the bot's token ({})", refused.description),
            _ if self.poll.failures < TOLD_AFTER => return,
            429 => "the Bot API server says that askd asks too often".to_owned(),
            code => format!("the Bot API server has a fault ({code}: {})", refused.description),
        };
        self.poll.trouble = Some(trouble);
    }
}
