//! Answers to the one ask in focus.

use askd_wire::{Answer, BulkAnswer, ChoiceKind, Decision};

use super::{Line, Mode, Purpose, Queue};
use crate::action::{Action, Link};
use crate::content;
use crate::editor::Editor;
use crate::guard::Target;
use crate::now::Now;
use crate::words;

/// Why a key did not answer, for the person.
pub(super) const AWAY: &str = "the daemon is away: nothing was answered";
const TOO_SOON: &str = "too soon after it appeared: press it again";
const NO_ROOM: &str = "there is no room to show it: a larger window is needed";
const READ_FIRST: &str = "read it to its end first: space";

impl Queue {
    /// Whether the ask in focus can be answered with this decision now; if not, why.
    pub(crate) fn may(&self, decision: Decision, now: Now) -> Result<(), &'static str> {
        let Some(item) = self.focused() else { return Err("no ask is in focus") };
        let target = Target::Ask(item.ask.id.clone());
        if self.link != Link::Up {
            return Err(AWAY);
        }
        if item.is_handed_back() {
            return Err("only the agent's own prompt can answer it now");
        }
        if !item.is_answerable() {
            return Err("an answer is on its way");
        }
        if self.screen.too_small {
            return Err(NO_ROOM);
        }
        if !self.guard.may_deny(&target, now.tick) {
            return Err(TOO_SOON);
        }
        if decision == Decision::Allow {
            if let Some(why) = content::not_shown(&item.ask) {
                return Err(why);
            }
            if !item.is_read() {
                return Err(READ_FIRST);
            }
            if !item.ask.options.is_empty()
                && !item.ask.options.iter().any(|option| option.kind == ChoiceKind::AllowOnce)
            {
                return Err("the agent offers no plain yes: A shows what it offers");
            }
            if !self.guard.may_allow(&target, now.tick) {
                return Err(TOO_SOON);
            }
        }
        Ok(())
    }

    pub(super) fn decide(&mut self, decision: Decision, now: Now) -> Vec<Action> {
        match self.may(decision, now) {
            Ok(()) => self.answer_focused(decision, None, None, false),
            Err(why) => self.refuse(why, now),
        }
    }

    /// Sends the answer and goes on to the next ask.
    pub(super) fn answer_focused(
        &mut self,
        decision: Decision,
        option: Option<String>,
        message: Option<String>,
        stop: bool,
    ) -> Vec<Action> {
        let Some(id) = self.focus.clone() else { return Vec::new() };
        let Some(item) = self.items.get_mut(&id) else { return Vec::new() };
        item.answering = Some(decision);
        let digest = item.ask.digest.clone();
        let answer = Answer { decision, digest, option, message, stop, surface: None };
        self.mode = Mode::List;
        vec![Action::Answer(BulkAnswer { id, answer })]
    }

    /// Opens the line for words that go with a deny.
    pub(super) fn open_message(&mut self, now: Now) -> Vec<Action> {
        if let Err(why) = self.may(Decision::Deny, now) {
            return self.refuse(why, now);
        }
        let Some(item) = self.focused() else { return Vec::new() };
        let purpose = Purpose::Message {
            id: item.ask.id.clone(),
            handle: words::one(&item.ask.handle),
            digest: item.ask.digest.clone(),
            stop: false,
        };
        let editor = Editor::with(std::mem::take(&mut self.kept_message));
        self.mode = Mode::Line(Line { purpose, editor });
        Vec::new()
    }

    /// Sends the deny with the words that were typed for it, to the ask that they were typed for.
    pub(super) fn send_message(&mut self, line: Line) -> Vec<Action> {
        let Purpose::Message { id, digest, stop, .. } = &line.purpose else { return Vec::new() };
        let is_there =
            self.items.get(id).is_some_and(|item| item.is_answerable() && item.ask.digest == *digest);
        let text = line.editor.text().trim().to_owned();
        if self.link != Link::Up || !is_there || text.is_empty() {
            self.hint = Some(match (is_there, text.is_empty()) {
                (false, _) => "that ask is over: nothing was sent, your words are kept".to_owned(),
                (true, true) => "nothing was typed: nothing was answered (n denies without words)".to_owned(),
                (true, false) => format!("{AWAY}, your words are kept"),
            });
            self.kept_message = line.editor.into_draft();
            self.mode = Mode::List;
            return Vec::new();
        }
        let (id, stop) = (id.clone(), *stop);
        self.focus_on(&id);
        self.answer_focused(Decision::Deny, None, Some(text), stop)
    }

    fn focus_on(&mut self, id: &str) {
        self.set_focus(Some(id.to_owned()));
    }
}
