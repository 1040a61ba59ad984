//! What opencode has open, and what it may be told when. Pure: no I/O, no clock.
//!
//! | what opencode does | what follows here |
//! |---|---|
//! | a no ends every open ask of its session | a no waits until each of the others has its answer |
//! | the turn ends (cancelled, failed): nobody is told, the ask stays listed, a yes may still run the call | the ask is gone, no yes is given any more, and a no clears it while nothing else of the session is open |
//! | a yes for always answers all of its session that match | while a no waits there it is told as one for once; what was swept along by one in its own dialog is told as that |

use std::collections::{BTreeMap, BTreeSet};

use crate::hidden::{HiddenEnd, HiddenReply, HiddenTold};

#[derive(Debug, Default)]
pub(super) struct Book {
    open: BTreeMap<String, Open>,
    /// Ids that are over; one that is listed again is a leftover, not a new ask.
    over: BTreeSet<String>,
    /// Sessions that got a no from here and have not asked anything since.
    denied: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Open {
    session: String,
    directory: Option<String>,
    answer: Answer,
    /// It was not listed, or its session did not work, when somebody looked last.
    doubtful: bool,
    /// Another one of its session was just allowed for always.
    swept: bool,
    /// Its turn was cancelled: no yes is given any more.
    revoked: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    None,
    /// A yes is on its way.
    Yes,
    /// A no waits for the session's other asks, or was sent.
    No {
        message: Option<String>,
        sent: bool,
    },
    /// The agent did not have it open any more when it was told; how it ended is still to be heard.
    Refused,
}

/// One thing to tell opencode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tell {
    pub(super) id: String,
    pub(super) session: String,
    pub(super) directory: Option<String>,
    pub(super) reply: HiddenReply,
    pub(super) message: Option<String>,
}

/// What becomes of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It is not open.
    Gone,
    /// Tell it now.
    Now(Tell),
    /// A no, which goes when [`Book::due`] says so.
    No { held: bool },
}

impl Book {
    /// Whether this ask was never heard of; it is open then.
    pub(super) fn asked(&mut self, id: &str, session: &str, directory: Option<&str>) -> bool {
        if self.over.contains(id) {
            return false;
        }
        if let Some(open) = self.open.get_mut(id) {
            open.doubtful = false;
            return false;
        }
        if !self.is_being_denied(session) {
            self.denied.remove(session);
        }
        let open = Open {
            session: session.to_owned(),
            directory: directory.map(str::to_owned),
            answer: Answer::None,
            doubtful: false,
            swept: false,
            revoked: false,
        };
        self.open.insert(id.to_owned(), open);
        true
    }

    /// The agent says that it was answered, in its own word for the reply. `None`: it was not open here.
    pub(super) fn replied(&mut self, id: &str, reply: &str) -> Option<HiddenEnd> {
        match reply {
            "reject" => self.gone(id, HiddenEnd::Rejected),
            "always" => {
                let open = self.open.get(id)?;
                if open.swept && open.answer != Answer::Yes {
                    return self.gone(id, HiddenEnd::AllowedAlong);
                }
                let session = open.session.clone();
                for open in self.open.values_mut().filter(|open| open.session == session) {
                    open.swept = true;
                }
                self.gone(id, HiddenEnd::Allowed)
            }
            _ => self.gone(id, HiddenEnd::Allowed),
        }
    }

    /// What an answer for always swept along is told right behind it; a later one is an answer of its own.
    pub(super) fn swept_all(&mut self) {
        for open in self.open.values_mut() {
            open.swept = false;
        }
    }

    /// It is no longer open in the agent. `None`: it was not open here.
    pub(super) fn gone(&mut self, id: &str, seen: HiddenEnd) -> Option<HiddenEnd> {
        self.over.insert(id.to_owned());
        let open = self.open.remove(id)?;
        // Taken along by the no that another one got from here: nobody said no to this one.
        let taken_along = seen == HiddenEnd::Rejected
            && open.answer == Answer::None
            && (self.denied.contains(&open.session) || self.is_being_denied(&open.session));
        Some(if taken_along { HiddenEnd::Vanished } else { seen })
    }

    fn is_being_denied(&self, session: &str) -> bool {
        self.open
            .values()
            .any(|open| open.session == session && matches!(open.answer, Answer::No { sent: true, .. }))
    }

    pub(super) fn answer(&mut self, id: &str, reply: HiddenReply, message: Option<&str>) -> Next {
        let Some(open) = self.open.get_mut(id) else { return Next::Gone };
        match (&open.answer, reply) {
            (Answer::No { sent: true, .. } | Answer::Refused, _) => Next::Gone,
            (_, HiddenReply::Once | HiddenReply::Always) if open.revoked => Next::Gone,
            (_, HiddenReply::Once | HiddenReply::Always) => {
                open.answer = Answer::Yes;
                Next::Now(tell(id, open, reply, None))
            }
            (_, HiddenReply::Reject) => {
                open.answer = Answer::No { message: message.map(str::to_owned), sent: false };
                let session = open.session.clone();
                let held = self
                    .open
                    .values()
                    .any(|open| open.session == session && matches!(open.answer, Answer::None | Answer::Yes));
                Next::No { held }
            }
        }
    }

    /// How a yes is told, looked at right before; `None`: it is not told any more. One for always would make the agent
    /// allow the session's other asks as well, and of a no that waits it has not heard.
    pub(super) fn word(&self, tell: &Tell) -> Option<(HiddenReply, HiddenTold)> {
        self.open.get(&tell.id).filter(|open| !open.revoked)?;
        let denied = |open: &Open| open.session == tell.session && matches!(open.answer, Answer::No { .. });
        Some(match tell.reply {
            HiddenReply::Always if self.open.values().any(denied) => {
                (HiddenReply::Once, HiddenTold::OnceInstead)
            }
            reply => (reply, HiddenTold::AsSaid),
        })
    }

    /// The turn was cancelled: a yes that is not with the agent yet is void.
    pub(super) fn forget(&mut self, id: &str) {
        if let Some(open) = self.open.get_mut(id) {
            open.revoked = true;
            if open.answer == Answer::Yes {
                open.answer = Answer::None;
            }
        }
    }

    /// A yes did not get through; the ask may be answered again.
    pub(super) fn not_told(&mut self, id: &str) {
        if let Some(open) = self.open.get_mut(id) {
            open.answer = Answer::None;
        }
    }

    /// The agent did not have it open any more. What was to be taken along by it is held again.
    pub(super) fn refused(&mut self, id: &str) {
        let Some(open) = self.open.get_mut(id) else { return };
        open.answer = Answer::Refused;
        let session = open.session.clone();
        for open in self.open.values_mut().filter(|open| open.session == session) {
            if let Answer::No { sent, .. } = &mut open.answer {
                *sent = false;
            }
        }
    }

    /// The no for a session whose open asks all have one. It takes the others along, so it says their words too.
    pub(super) fn due(&mut self, session: &str) -> Option<Tell> {
        let mut words: Vec<&str> = Vec::new();
        let mut first = None;
        let mine = |open: &&Open| open.session == session && open.answer != Answer::Refused;
        for (id, open) in self.open.iter().filter(|(_, open)| mine(open)) {
            let Answer::No { message, sent: false } = &open.answer else { return None };
            words.extend(message.as_deref().filter(|message| !words.contains(message)));
            first = first.or(Some((id, open)));
        }
        let (id, open) = first?;
        let message = (!words.is_empty()).then(|| words.join("\n"));
        let tell = tell(id, open, HiddenReply::Reject, message);
        for open in self.open.values_mut().filter(|open| open.session == session) {
            if let Answer::No { sent, .. } = &mut open.answer {
                *sent = true;
            }
        }
        self.denied.insert(session.to_owned());
        Some(tell)
    }

    /// Where an open ask belongs.
    pub(super) fn session_of(&self, id: &str) -> Option<&str> {
        self.open.get(id).map(|open| open.session.as_str())
    }

    /// The turn of a session is over: its open asks are dead. Their ids.
    pub(super) fn ended(&mut self, session: &str) -> Vec<String> {
        let dead: Vec<String> =
            self.open.iter().filter(|(_, open)| open.session == session).map(|(id, _)| id.clone()).collect();
        for id in &dead {
            self.open.remove(id);
            self.over.insert(id.clone());
        }
        dead
    }

    /// A leftover may be cleared by a no: nothing of its session is open, which would be taken along.
    pub(super) fn may_clear(&self, session: &str) -> bool {
        self.open.values().all(|open| open.session != session)
    }

    /// After a look at one directory: those of its asks that are certainly gone, because they were missing (or their
    /// session idle) this time and the time before. Once is not enough, as the answer may be on its way.
    pub(super) fn missing(
        &mut self,
        directory: Option<&str>,
        is_there: impl Fn(&str, &str) -> bool,
    ) -> Vec<String> {
        let mut gone = Vec::new();
        for (id, open) in self.open.iter_mut().filter(|(_, open)| open.directory.as_deref() == directory) {
            let missing = !is_there(id, &open.session);
            if missing && open.doubtful {
                gone.push(id.clone());
            }
            open.doubtful = missing;
        }
        gone
    }

    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }
}

fn tell(id: &str, open: &Open, reply: HiddenReply, message: Option<String>) -> Tell {
    Tell {
        id: id.to_owned(),
        session: open.session.clone(),
        directory: open.directory.clone(),
        reply,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(asks: &[(&str, &str)]) -> Book {
        let mut book = Book::default();
        for (id, session) in asks {
            assert!(book.asked(id, session, None));
        }
        book
    }

    fn told(next: Next) -> (String, HiddenReply, Option<String>) {
        match next {
            Next::Now(tell) => (tell.id, tell.reply, tell.message),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_no_waits_for_the_others_of_its_session_only() {
        let mut book = book(&[("a", "s"), ("b", "s"), ("c", "t")]);
        assert_eq!(book.answer("a", HiddenReply::Reject, Some("not a")), Next::No { held: true });
        assert_eq!(book.answer("c", HiddenReply::Reject, None), Next::No { held: false });
        assert_eq!((book.due("s"), book.due("t").unwrap().id.as_str()), (None, "c"));
        assert_eq!(told(book.answer("b", HiddenReply::Once, None)), ("b".into(), HiddenReply::Once, None));
        assert_eq!(book.due("s"), None, "the yes has not arrived yet");
        assert_eq!(book.gone("b", HiddenEnd::Allowed), Some(HiddenEnd::Allowed));
        let due = book.due("s").unwrap();
        assert_eq!((due.id.as_str(), due.message.as_deref()), ("a", Some("not a")));
        assert_eq!(book.due("s"), None, "once");
        assert_eq!(book.gone("a", HiddenEnd::Rejected), Some(HiddenEnd::Rejected));
    }

    #[test]
    fn several_no_of_a_session_go_as_one_with_all_their_words() {
        for order in [["a", "b"], ["b", "a"]] {
            let mut book = book(&[("a", "s"), ("b", "s")]);
            for id in order {
                assert_eq!(book.due("s"), None);
                let held = id == order[0];
                let next = book.answer(id, HiddenReply::Reject, Some(&format!("not {id}")));
                assert_eq!(next, Next::No { held });
            }
            let due = book.due("s").unwrap();
            assert_eq!((due.id.as_str(), due.message.as_deref()), ("a", Some("not a\nnot b")));
            for id in order {
                assert_eq!(book.gone(id, HiddenEnd::Rejected), Some(HiddenEnd::Rejected), "both were denied");
            }
        }
    }

    #[test]
    fn nobody_said_no_to_what_another_no_took_along() {
        for order in [["a", "b"], ["b", "a"]] {
            let mut book = book(&[("a", "s")]);
            book.answer("a", HiddenReply::Reject, None);
            book.due("s").unwrap();
            assert!(book.asked("b", "s", None), "it came while the no was on its way");
            for id in order {
                let expected = if id == "a" { HiddenEnd::Rejected } else { HiddenEnd::Vanished };
                assert_eq!(book.gone(id, HiddenEnd::Rejected), Some(expected));
            }
            assert!(book.asked("c", "s", None));
            assert_eq!(
                book.gone("c", HiddenEnd::Rejected),
                Some(HiddenEnd::Rejected),
                "in the agent's own dialog"
            );
        }
    }

    #[test]
    fn a_no_that_came_too_late_does_not_lose_the_others() {
        let mut book = book(&[("a", "s"), ("b", "s")]);
        for id in ["a", "b"] {
            book.answer(id, HiddenReply::Reject, Some(id));
        }
        assert_eq!(book.due("s").unwrap().id, "a");
        book.refused("a");
        assert_eq!(book.due("s").unwrap().id, "b");
        assert_eq!(book.gone("a", HiddenEnd::Allowed), Some(HiddenEnd::Allowed));
    }

    #[test]
    fn a6_no_yes_is_given_after_the_turn_ended() {
        let mut book = book(&[("a", "s"), ("b", "t")]);
        assert_eq!(book.ended("s"), ["a"]);
        assert_eq!(book.answer("a", HiddenReply::Once, None), Next::Gone);
        assert_eq!(book.gone("a", HiddenEnd::Rejected), None, "the clearing no is not news");
        assert!(!book.asked("a", "s", None), "opencode still lists it");
        assert!(book.may_clear("s") && !book.may_clear("t"));
        assert!(book.asked("c", "s", None));
        assert!(!book.may_clear("s"), "a no would take the newer one along");
    }

    #[test]
    fn an_answer_that_did_not_get_through_may_be_given_again() {
        let mut book = book(&[("a", "s")]);
        told(book.answer("a", HiddenReply::Once, None));
        book.not_told("a");
        book.answer("a", HiddenReply::Reject, None);
        book.due("s").unwrap();
        assert_eq!(book.answer("a", HiddenReply::Once, None), Next::Gone, "the no is on its way");
    }

    #[test]
    fn a5_a_yes_for_always_beside_a_no_that_waits_is_one_for_once() {
        let mut book = book(&[("a", "s"), ("b", "s"), ("c", "t")]);
        let always = |book: &mut Book, id: &str| match book.answer(id, HiddenReply::Always, None) {
            Next::Now(tell) => book.word(&tell),
            other => panic!("{other:?}"),
        };
        let first = match book.answer("b", HiddenReply::Always, None) {
            Next::Now(tell) => tell,
            other => panic!("{other:?}"),
        };
        assert_eq!(book.word(&first), Some((HiddenReply::Always, HiddenTold::AsSaid)));
        book.answer("a", HiddenReply::Reject, None);
        let once = Some((HiddenReply::Once, HiddenTold::OnceInstead));
        assert_eq!(book.word(&first), once, "the no came before it was sent");
        book.not_told("b");
        assert_eq!(always(&mut book, "b"), once);
        assert_eq!(always(&mut book, "c"), Some((HiddenReply::Always, HiddenTold::AsSaid)), "elsewhere");
    }

    #[test]
    fn c11_what_an_always_in_the_agents_own_dialog_swept_along_is_told_as_that() {
        let mut book = book(&[("a", "s"), ("b", "s"), ("c", "s"), ("d", "t")]);
        book.answer("a", HiddenReply::Reject, None);
        assert_eq!(book.replied("b", "always"), Some(HiddenEnd::Allowed));
        assert_eq!(book.replied("a", "always"), Some(HiddenEnd::AllowedAlong));
        assert_eq!(book.replied("d", "always"), Some(HiddenEnd::Allowed), "of another session");
        book.swept_all();
        assert_eq!(book.replied("c", "always"), Some(HiddenEnd::Allowed), "answered by itself, later");
    }

    #[test]
    fn a6_a_yes_that_was_taken_back_is_never_told() {
        let mut book = book(&[("a", "s")]);
        let Next::Now(tell) = book.answer("a", HiddenReply::Once, None) else { panic!("it is open") };
        book.not_told("a");
        book.forget("a");
        assert_eq!(book.word(&tell), None, "one that was on its way");
        assert_eq!(book.answer("a", HiddenReply::Once, None), Next::Gone, "and one that is tried again");
        assert_eq!(book.answer("a", HiddenReply::Reject, None), Next::No { held: false }, "a no may go");
    }

    #[test]
    fn what_is_missing_twice_is_gone() {
        let mut book = book(&[("a", "s"), ("b", "s")]);
        assert!(book.missing(None, |id, _| id == "b").is_empty());
        assert!(book.missing(Some("/elsewhere"), |_, _| false).is_empty());
        assert!(book.missing(None, |_, _| true).is_empty(), "it is there again");
        assert!(book.missing(None, |id, _| id == "b").is_empty());
        assert_eq!(book.missing(None, |id, _| id == "b"), ["a"]);
        assert!(book.is_open("a"), "whoever asked ends it");
    }
}
