//! What became of the actions.

use askd_wire::{Ask, Code, Problem};

use super::{Mode, Queue};
use crate::action::{Action, Reply};
use crate::notes::About;
use crate::now::Now;
use crate::pager::Pager;
use crate::rows::Look;
use crate::words;

const ABOUT: usize = 80;

impl Queue {
    /// Takes the reply to an action.
    #[must_use]
    pub fn handle_reply(&mut self, reply: Reply, now: Now) -> Vec<Action> {
        let mut actions = Vec::new();
        match reply {
            Reply::Answered(ask) => self.answered(&ask),
            Reply::Refused { id, problem } => self.refused(&id, *problem, now),
            Reply::Lost { id, why } => self.lost(&id, &why, &mut actions),
            Reply::Command(Ok(text)) => self.output(&text),
            Reply::Command(Err(why)) => self.output(&format!("not done: {}", words::one(&why))),
            Reply::TakenBack { id, failed } => self.taken_back(&id, failed),
            Reply::Seen { id, ask } => self.seen(&id, ask, now),
            Reply::Said(text) => self.notes.say(words::one(&text), Look::Warn),
        }
        self.settle(actions)
    }

    fn answered(&mut self, ask: &Ask) {
        self.crossing.remove(&ask.id);
        let Some(item) = self.remove(&ask.id) else { return };
        let about = item.about(ABOUT);
        if let Some(outcome) = &ask.outcome {
            self.note(&ask.handle, about.clone(), words::settled(outcome), Look::Quiet);
        }
        self.forget(ask, about);
    }

    fn refused(&mut self, id: &str, problem: Problem, now: Now) {
        let crossing = self.crossing.remove(id);
        let Some(item) = self.items.get_mut(id) else { return };
        item.answering = None;
        let (handle, about) = (item.ask.handle.clone(), item.about(ABOUT));
        self.note(&handle, about.clone(), words::refusal(&problem), Look::Warn);
        let is_over = matches!(problem.code, Code::AlreadySettled | Code::UnknownAsk);
        let is_kept = problem.recorded.as_deref() == Some("late");
        let Some(ask) = problem.ask.or(crossing) else {
            if is_over {
                self.remove(id);
            }
            return;
        };
        if let Some(late) = ask.late.as_ref().filter(|_| is_kept) {
            let until = self.around.local(&late.until, now);
            let text = format!("{} (u takes it back)", words::late_of_yours(late, &until));
            self.note(&handle, about.clone(), text, Look::Warn);
            self.kept_late = Some(id.to_owned());
        }
        if is_over {
            self.remove(id);
            self.forget(&ask, about);
        } else if ask.id == id {
            self.update(*ask, now);
        }
    }

    fn lost(&mut self, id: &str, why: &str, actions: &mut Vec<Action>) {
        let crossing = self.crossing.remove(id);
        let Some(item) = self.items.get_mut(id) else { return };
        item.answering = None;
        let (handle, about) = (item.ask.handle.clone(), item.about(ABOUT));
        if let Some(ask) = crossing
            && let Some(item) = self.remove(id)
        {
            return self.end(&item, &ask);
        }
        let text = format!("no reply, your answer may not have arrived: {}", words::one(why));
        self.note(&handle, about, text, Look::Warn);
        actions.push(Action::Look { id: id.to_owned() });
    }

    fn output(&mut self, text: &str) {
        let lines = text.lines().map(words::plain).collect();
        // A line that is being typed is not taken away.
        if let Mode::Line(_) = self.mode {
            for line in text.lines() {
                self.notes.say(words::plain(line), Look::Plain);
            }
        } else {
            self.mode = Mode::Output { lines, pager: Pager::default() };
        }
    }

    fn taken_back(&mut self, id: &str, failed: Option<String>) {
        let (handle, about) = match self.notes.ended(id) {
            Some(ended) => (ended.handle.clone(), ended.about.clone()),
            None => (String::new(), About::default()),
        };
        match failed {
            None => self.note(&handle, about, "your late answer was taken back".to_owned(), Look::Quiet),
            Some(why) => self.note(
                &handle,
                about,
                format!("your late answer was not taken back: {}", words::one(&why)),
                Look::Warn,
            ),
        }
    }

    fn seen(&mut self, id: &str, ask: Option<Box<Ask>>, now: Now) {
        match ask {
            Some(ask) => {
                if self.items.contains_key(&ask.id) {
                    self.update(*ask, now);
                }
            }
            None => {
                if let Some(item) = self.remove(id) {
                    let about = item.about(ABOUT);
                    let handle = item.ask.handle.clone();
                    self.note(&handle, about, "(gone; how it ended is not kept)".to_owned(), Look::Quiet);
                }
            }
        }
    }
}
