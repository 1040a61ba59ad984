//! What people write: commands and replies to cards. A yes or no that is a reply to nothing answers nothing: which card
//! was on the screen when it was written, and whether it is the one that is known here, nobody can say. Nothing of it
//! ever goes to an agent but the words of a denial.

use askd_wire::{Ask, Decision, Problem};
use askd_words as words;

use super::{Machine, Out, Waiting, Waits};
use crate::surface::{Now, Wish};
use crate::telegram::call::Call;
use crate::telegram::hands::{Deed, Lane};
use crate::telegram::shape::Message;
use crate::telegram::text;

const HELP: &str = "I show what coding agents ask, and take your answers.\n\
    Tap a button, or reply to a card with y, with n, or with n and your words for the agent.\n\
    /asks lists what is open.\n\
    /permissions says what happens when nobody answers; /permissions default allow|deny [safety] and \
    /permissions timeout SECS [safety] change it for asks made from now on.\n\
    /skip-permissions on|off allows every tool without asking, or asks again.\n\
    Anything else you write goes nowhere.";
/// Longest words of a denial that are taken, in bytes; a message of Telegram has no more.
const LONGEST_WORDS: usize = 16 * 1024;

/// A change of permissions that is older than this, in seconds, was meant for another moment.
const MOST_OLD_COMMAND: i64 = 120;

/// An answer that was written.
#[derive(Debug, Clone)]
pub(super) struct Said {
    chat: i64,
    message: i64,
    by: Option<String>,
    decision: Decision,
    words: Option<String>,
    ask: String,
}

/// What a reply to a card says.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    Yes,
    No(Option<String>),
    Nothing,
}

/// Only a bare yes is a yes; what begins with a no is one, with the rest for words.
fn meaning(text: &str) -> Meaning {
    let text = text.trim();
    let (first, rest) = match text.split_once(|c: char| c.is_whitespace()) {
        Some((first, rest)) => (first, rest.trim()),
        None => (text, ""),
    };
    let word = first.trim_end_matches([',', '.', ':', ';', '!', '-', '–', '—']).to_lowercase();
    match word.as_str() {
        "n" | "no" | "deny" => Meaning::No((!rest.is_empty()).then(|| rest.to_owned())),
        "y" | "yes" if rest.is_empty() => Meaning::Yes,
        _ => Meaning::Nothing,
    }
}

impl Machine {
    pub(super) fn said(&mut self, message: Message, now: Now, out: &mut Out) {
        let chat = message.chat.id;
        if !self.may(message.from.as_ref(), chat, out) {
            return;
        }
        let Some(said) = message.text.as_deref().map(str::trim).filter(|said| !said.is_empty()) else {
            return;
        };
        // What somebody wrote elsewhere is not said here.
        let foreign = message.forward_origin.is_some() || message.via_bot.is_some();
        if foreign {
            return self.help(&message);
        }
        if said.starts_with('/') {
            return self.command(said, &message, now, out);
        }
        let ours = |reply: &&Message| reply.from.as_ref().is_some_and(|from| from.id == self.setup.bot);
        match message.reply_to_message.as_deref() {
            Some(reply) if ours(&reply) => self.reply(said, &message, reply, now, out),
            // In a group people talk with each other.
            _ if message.chat.kind != "private" => {}
            Some(_) => self.help(&message),
            None => self.bare(said, &message, out),
        }
    }

    fn reply(&mut self, said: &str, message: &Message, to: &Message, now: Now, out: &mut Out) {
        let text = to.text.as_deref().unwrap_or_default();
        let (chat, id) = (message.chat.id, to.message_id);
        let known = self.ask_of(chat, id).map(str::to_owned);
        // What is known counts more than its text, which is partly an agent's.
        let asked_for_words = match known {
            Some(_) => self.prompts.iter().any(|(at, of, _)| (*at, *of) == (chat, id)),
            None => text::is_prompt(text),
        };
        // Also of a message that was sent before a crash and never confirmed; it is the bot's own.
        let Some(ask) = known.or_else(|| text::handle_of(text).map(str::to_owned)) else {
            return self.help(message);
        };
        let (decision, words) = if asked_for_words {
            (Decision::Deny, Some(said.to_owned()))
        } else {
            match meaning(said) {
                Meaning::Yes => (Decision::Allow, None),
                Meaning::No(words) => (Decision::Deny, words),
                Meaning::Nothing => return self.help(message),
            }
        };
        self.take_answer(message, decision, words, ask, now, out);
    }

    /// A yes or no that is a reply to nothing: the list says what it may have meant.
    fn bare(&mut self, said: &str, message: &Message, out: &mut Out) {
        if !matches!(meaning(said), Meaning::Yes | Meaning::No(None)) {
            return self.help(message);
        }
        let lead =
            "It is not clear which ask you mean: reply to its card, or tap a button. Nothing was answered.";
        self.say(message.chat.id, lead, Some(message.message_id));
        self.list(message, out);
    }

    fn take_answer(
        &mut self,
        message: &Message,
        decision: Decision,
        words: Option<String>,
        ask: String,
        now: Now,
        out: &mut Out,
    ) {
        let by = message.from.as_ref().and_then(|from| self.name_of(from));
        let words = words.filter(|words| words.len() <= LONGEST_WORDS);
        let said = Said { chat: message.chat.id, message: message.message_id, by, decision, words, ask };
        match self.asks.get(&said.ask).cloned() {
            Some(ask) => self.replied_ask(said, Some(Box::new(ask)), now, out),
            None => {
                let ticket = self.next();
                out.wish(Wish::Look { ticket, ask: said.ask.clone() });
                self.waits = Some(Waits { ticket, what: Waiting::RepliedAsk(Box::new(said)) });
            }
        }
    }

    pub(super) fn replied_ask(&mut self, said: Said, ask: Option<Box<Ask>>, now: Now, out: &mut Out) {
        let (chat, message) = (said.chat, Some(said.message));
        let Some(ask) = ask else {
            return self.say(chat, "askd does not know this ask (any more). Nothing was answered.", message);
        };
        if !words::is_answerable(&ask) {
            let text = text::already(&ask, now.wall_ms);
            let id = ask.id.clone();
            self.know(*ask);
            self.bring_up_to_date(&id);
            return self.say(chat, &text, message);
        }
        if said.decision == Decision::Allow && !self.was_shown_whole(&ask, chat, now) {
            let text = format!("Not all of {} was shown here; nothing was allowed.", ask.handle);
            return self.say(chat, &text, message);
        }
        let (decision, by, words) = (said.decision, said.by.clone(), said.words.clone());
        let wait = Waiting::ReplyAnswer(Box::new(said));
        self.answer(&ask, decision, None, words, by, wait, out);
    }

    pub(super) fn reply_answered(&mut self, said: &Said, result: Result<Box<Ask>, Box<Problem>>, now: Now) {
        let (text, ask) = match result {
            Ok(ask) => (text::done(&ask), Some(ask)),
            Err(problem) => (text::refused(&problem, now.wall_ms, &self.reader), problem.ask),
        };
        self.say(said.chat, &text, Some(said.message));
        if let Some(ask) = ask {
            self.update_known(*ask);
        }
    }

    fn command(&mut self, said: &str, message: &Message, now: Now, out: &mut Out) {
        let (first, rest) = match said.split_once(|c: char| c.is_whitespace()) {
            Some((first, rest)) => (first, rest.trim()),
            None => (said, ""),
        };
        // In groups a command can name the bot that is meant.
        let (name, bot) = match first.split_once('@') {
            Some((name, bot)) => (name, Some(bot)),
            None => (first, None),
        };
        if let Some(bot) = bot {
            match &self.name {
                Some(own) if own.eq_ignore_ascii_case(bot) => {}
                Some(_) => return,
                None => return self.ask_name(out),
            }
        }
        let name = name.to_lowercase().replace('_', "-");
        let age = now.wall_ms / 1000 - message.date;
        let loosens = match name.as_str() {
            "/skip-permissions" => rest.eq_ignore_ascii_case("on"),
            "/permissions" => !rest.is_empty(),
            _ => false,
        };
        // One that waited at the server may be of a time before this daemon, and nobody looks at it now.
        if loosens && age > MOST_OLD_COMMAND {
            let ago = askd_text::ago(std::time::Duration::from_secs(age.unsigned_abs()));
            let text =
                format!("This was written {ago}, so it changed nothing. If you still want it, say it again.");
            return self.say(message.chat.id, &text, Some(message.message_id));
        }
        match (name.as_str(), rest) {
            ("/asks", _) => self.list(message, out),
            // Switching without a direction, twice for a lost reply, would be a guess.
            ("/skip-permissions", "") => {
                let text = "Say /skip-permissions on or /skip-permissions off. /permissions says how it is.";
                self.say(message.chat.id, text, Some(message.message_id));
            }
            ("/permissions" | "/skip-permissions", rest) => {
                let ticket = self.next();
                out.wish(Wish::Command { ticket, text: format!("{name} {rest}").trim_end().to_owned() });
                let what = Waiting::Command { chat: message.chat.id, message: message.message_id };
                self.waits = Some(Waits { ticket, what });
            }
            _ => self.help(message),
        }
    }

    /// The update in front waits until it is known how this bot is called.
    fn ask_name(&mut self, out: &mut Out) {
        let number = self.next();
        out.deed(Deed::Call { lane: Lane::Taps, number, call: Call::Me });
        self.waits = Some(Waits { ticket: number, what: Waiting::Name });
    }

    fn list(&mut self, message: &Message, out: &mut Out) {
        let ticket = self.next();
        self.listing.insert(ticket, (message.chat.id, Some(message.message_id)));
        out.wish(Wish::List { ticket });
    }

    fn help(&mut self, message: &Message) {
        self.say(message.chat.id, HELP, Some(message.message_id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bare_yes_is_a_yes_and_a_no_may_go_on() {
        for (text, expected) in [
            ("y", Meaning::Yes),
            (" Yes! ", Meaning::Yes),
            ("yes please", Meaning::Nothing),
            ("yes, but not in prod", Meaning::Nothing),
            ("n", Meaning::No(None)),
            ("NO.", Meaning::No(None)),
            ("no, use make", Meaning::No(Some("use make".to_owned()))),
            ("deny", Meaning::No(None)),
            ("not now", Meaning::Nothing),
            ("nope", Meaning::Nothing),
            ("ok", Meaning::Nothing),
            ("", Meaning::Nothing),
        ] {
            assert_eq!(meaning(text), expected, "{text}");
        }
    }
}
