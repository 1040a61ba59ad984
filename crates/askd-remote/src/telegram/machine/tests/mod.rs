//! The machine by itself, step by step, with a daemon and a server of a few lines.

mod cards;
mod polls;
mod said;

use askd_wire::{Code, Decision};
use askd_words::Sessions;
use jiff::tz::TimeZone;
use serde_json::json;

use super::*;
use crate::surface::{Now, Step};
use crate::telegram::call::{Call, Refused, Sent};
use crate::telegram::hands::{Deed, Lane};
use crate::telegram::samples;

const CHAT: i64 = 11;

struct Rig {
    machine: Machine,
    now: Now,
    /// Calls that nobody answered.
    calls: Vec<(Lane, u64, Call)>,
    poll: Option<(u64, i64, u64)>,
    wishes: Vec<Wish>,
    next_message: i64,
    /// The journal takes no state.
    full: bool,
}

impl Rig {
    fn new(asks: Vec<Ask>) -> Self {
        let mut rig = Self::before(1);
        rig.run(|machine, now, out| machine.begin(None, asks, now, out));
        rig
    }

    fn before(people: usize) -> Self {
        let setup = Setup { bot: 1, chats: vec![CHAT], users: (11..).take(people).collect(), max_open: 5 };
        let reader = Reader { sessions: Sessions::new(None, None), zone: TimeZone::UTC };
        Self {
            machine: Machine::new(setup, reader, [3; 32]),
            now: Now { ms: 0, wall_ms: 1_796_025_600_000 },
            calls: Vec::new(),
            poll: None,
            wishes: Vec::new(),
            next_message: 100,
            full: false,
        }
    }

    fn run(&mut self, act: impl FnOnce(&mut Machine, Now, &mut Out)) {
        let mut out = Out::default();
        act(&mut self.machine, self.now, &mut out);
        let mut steps = VecDeque::from(out.steps);
        while let Some(step) = steps.pop_front() {
            match step {
                Step::Wish(wish) => {
                    if matches!(wish, Wish::Keep { .. }) {
                        let mut out = Out::default();
                        self.machine.replied(Reply::Kept { done: !self.full }, self.now, &mut out);
                        out.steps.into_iter().rev().for_each(|step| steps.push_front(step));
                    }
                    self.wishes.push(wish);
                }
                Step::Deed(Deed::Call { lane, number, call }) => self.calls.push((lane, number, call)),
                Step::Deed(Deed::Poll { number, offset, timeout_secs }) => {
                    self.poll = Some((number, offset, timeout_secs));
                }
            }
        }
    }

    fn sent(&mut self, number: u64, sent: Sent) {
        self.run(|machine, now, out| machine.heard(Heard::Sent { number, sent }, now, out));
    }

    /// The server does all calls.
    fn serve(&mut self) -> Vec<Call> {
        let mut done = Vec::new();
        while !self.calls.is_empty() {
            let (_, number, call) = self.calls.remove(0);
            self.next_message += 1;
            let id = self.next_message;
            done.push(call);
            self.sent(number, Sent::Done(json!({"message_id": id, "date": 5})));
        }
        done
    }

    fn updates(&mut self, updates: Value) {
        let (number, ..) = self.poll.take().unwrap();
        let sent = Sent::Done(updates);
        self.run(|machine, now, out| machine.heard(Heard::Polled { number, sent }, now, out));
    }

    fn tap(&mut self, update: i64, person: i64, message: i64, data: &str) {
        self.updates(json!([{"update_id": update, "callback_query": {
            "id": format!("t{update}"), "from": {"id": person, "first_name": "P"}, "data": data,
            "message": {"message_id": message, "chat": {"id": CHAT, "type": "private"}},
        }}]));
    }

    /// A message in a chat of a kind, with what else it has.
    fn write(&mut self, update: i64, kind: &str, text: &str, more: Value) {
        let mut message = json!({
            "message_id": 900 + update, "date": self.now.wall_ms / 1000, "chat": {"id": CHAT, "type": kind},
            "from": {"id": 11, "first_name": "P"}, "text": text,
        });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.updates(json!([{"update_id": update, "message": message}]));
    }

    /// What is asked of the daemon, by commands.
    fn commands(&self) -> usize {
        self.wishes.iter().filter(|wish| matches!(wish, Wish::Command { .. })).count()
    }

    fn trouble(&self) -> Option<String> {
        self.wishes.iter().rev().find_map(|wish| match wish {
            Wish::Trouble(trouble) => Some(trouble.clone()),
            _ => None,
        })?
    }

    /// Time passes until something is due.
    fn wait(&mut self) {
        self.now.ms = self.now.ms.max(self.machine.due().expect("something is due"));
        self.run(|machine, now, out| machine.tick(now, out));
    }

    fn answers(&self) -> Vec<(Decision, u64)> {
        self.wishes
            .iter()
            .filter_map(|wish| match wish {
                Wish::Answer { ticket, answer, .. } => Some((answer.decision, *ticket)),
                _ => None,
            })
            .collect()
    }

    fn kept(&self) -> Option<Value> {
        self.wishes.iter().rev().find_map(|wish| match wish {
            Wish::Keep { state } => Some(state.clone()),
            _ => None,
        })
    }
}

fn button(call: &Call, label: &str) -> String {
    let Call::Send { buttons, .. } = call else { panic!("{call:?}") };
    buttons.iter().flatten().find(|(text, _)| text.contains(label)).unwrap().1.clone()
}

fn problem(code: Code, ask: Option<Ask>) -> Box<Problem> {
    let mut problem: Problem =
        serde_json::from_value(json!({"title": "t", "status": 409, "code": "already_settled"})).unwrap();
    (problem.code, problem.ask) = (code, ask.map(Box::new));
    Box::new(problem)
}
