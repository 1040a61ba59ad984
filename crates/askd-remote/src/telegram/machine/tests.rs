//! The machine by itself, step by step, with a daemon and a server of a few lines.

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
                        self.machine.replied(Reply::Kept { done: true }, self.now, &mut out);
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

#[test]
fn i4_the_number_behind_a_tap_is_kept_after_its_answer_and_confirmed_after_that() {
    let ask = samples::ask("k7f");
    let mut rig = Rig::new(vec![ask.clone()]);
    let card = rig.serve().remove(0);
    rig.updates(json!([]));
    let deny = button(&card, "⛔ Deny");
    rig.wishes.clear();
    rig.tap(70, 11, 101, &deny);
    let (decision, ticket) = rig.answers()[0];
    assert_eq!(decision, Decision::Deny);
    // Until the daemon has answered nothing is kept and nothing confirmed.
    assert!(rig.kept().is_none() && rig.poll.is_none());
    let over = samples::settled(&ask, "denied", "person", "denied by you in Telegram");
    rig.run(|machine, now, out| {
        machine.replied(Reply::Answered { ticket, result: Ok(Box::new(over)) }, now, out);
    });
    assert_eq!(rig.kept().unwrap()["offset"], 71);
    assert_eq!(rig.poll.unwrap().1, 71);
}

#[test]
fn i4_a_tap_that_the_journal_did_not_take_is_tried_again() {
    let ask = samples::ask("k7f");
    let mut rig = Rig::new(vec![ask]);
    let card = rig.serve().remove(0);
    rig.updates(json!([]));
    rig.tap(70, 11, 101, &button(&card, "Allow"));
    let (_, ticket) = rig.answers()[0];
    let result = Err(problem(Code::NotRecorded, None));
    rig.run(|machine, now, out| machine.replied(Reply::Answered { ticket, result }, now, out));
    assert_eq!(rig.answers().len(), 1);
    assert!(rig.poll.is_none(), "its update is not confirmed");
    rig.now.ms = rig.machine.due().unwrap();
    rig.run(|machine, now, out| machine.tick(now, out));
    assert_eq!(rig.answers().len(), 2);
}

#[test]
fn t10_polled_is_said_when_everything_that_waited_was_answered() {
    let ask = samples::ask("k7f");
    let mut rig = Rig::new(vec![ask.clone()]);
    let card = rig.serve().remove(0);
    let polled = |rig: &Rig| rig.wishes.iter().any(|wish| matches!(wish, Wish::Polled));
    assert_eq!(rig.poll.unwrap().2, 0, "what waits is fetched at once");
    rig.tap(70, 11, 101, &button(&card, "⛔ Deny"));
    assert!(!polled(&rig));
    let ticket = rig.answers()[0].1;
    let over = samples::settled(&ask, "denied", "person", "denied by you in Telegram");
    rig.run(|machine, now, out| {
        machine.replied(Reply::Answered { ticket, result: Ok(Box::new(over)) }, now, out);
    });
    assert!(polled(&rig));
    assert_eq!(rig.poll.unwrap().2, 25);
    // After a suspend the same again, and the poll that slept is not heard any more.
    rig.wishes.clear();
    let old = rig.poll.take().unwrap().0;
    rig.run(|machine, now, out| machine.told(Told::Woke, now, out));
    assert_eq!(rig.poll.unwrap().2, 0);
    let sent = Sent::Done(json!([]));
    rig.run(|machine, now, out| machine.heard(Heard::Polled { number: old, sent }, now, out));
    assert!(!polled(&rig));
    rig.updates(json!([]));
    assert!(polled(&rig));
}

#[test]
fn t16_an_ask_that_was_settled_while_it_waited_for_its_chat_is_not_sent() {
    let (first, second) = (samples::ask("k7f"), samples::ask("m2c"));
    let mut rig = Rig::new(vec![first, second.clone()]);
    assert_eq!(rig.calls.len(), 1, "one at a time");
    let over = samples::settled(&second, "allowed", "person", "allowed by you in terminal");
    rig.run(|machine, now, out| machine.update(over, "settled", now, out));
    let sent = rig.serve();
    assert_eq!(sent.len(), 1, "{sent:?}");
}

#[test]
fn t15_a_card_that_was_on_its_way_when_its_ask_was_settled_is_ended() {
    let ask = samples::ask("k7f");
    let mut rig = Rig::new(vec![ask.clone()]);
    let over = samples::settled(&ask, "denied", "timed", "timed out: auto-denied after 6m0s");
    rig.run(|machine, now, out| machine.update(over, "settled", now, out));
    let calls = rig.serve();
    let Call::Edit { text, buttons, .. } = calls.last().unwrap() else { panic!("{calls:?}") };
    assert!(text.plain.contains("timed out") && buttons.is_empty());
    assert!(!rig.wishes.iter().any(|wish| matches!(wish, Wish::Shown { .. })));
}

#[test]
fn t2_no_failure_is_ever_an_answer() {
    let refusals = [
        Sent::Unreachable("gone".to_owned()),
        Sent::Refused(Refused {
            code: 403,
            description: "Forbidden: bot was blocked by the user".into(),
            ..Refused::default()
        }),
        Sent::Refused(Refused { code: 500, ..Refused::default() }),
        Sent::Refused(Refused { code: 429, retry_after: Some(3), ..Refused::default() }),
        Sent::Refused(Refused { code: 401, description: "Unauthorized".into(), ..Refused::default() }),
        Sent::Done(json!({"no": "message id"})),
    ];
    for refusal in refusals {
        let mut rig = Rig::new(vec![samples::ask("k7f")]);
        for _ in 0..20 {
            if let Some((_, number, _)) = rig.calls.pop() {
                rig.sent(number, refusal.clone());
            }
            if let Some((number, ..)) = rig.poll.take() {
                let sent = refusal.clone();
                rig.run(|machine, now, out| machine.heard(Heard::Polled { number, sent }, now, out));
            }
            if let Some(due) = rig.machine.due() {
                rig.now.ms = rig.now.ms.max(due);
                rig.run(|machine, now, out| machine.tick(now, out));
            }
        }
        assert_eq!(rig.answers(), [], "{refusal:?}");
    }
}

#[test]
fn s5_over_a_restart_a_card_is_neither_sent_again_nor_forgotten() {
    let (open, gone) = (samples::ask("k7f"), samples::ask("m2c"));
    let mut rig = Rig::new(vec![open.clone(), gone.clone()]);
    let cards = rig.serve();
    rig.updates(json!([]));
    let kept = rig.kept();
    let mut next = Rig::before(1);
    next.run(|machine, now, out| machine.begin(kept, vec![open.clone()], now, out));
    // The one that is over meanwhile is looked up, and its message is edited.
    let ticket = next.wishes.iter().find_map(|wish| match wish {
        Wish::Look { ticket, ask } if *ask == gone.id => Some(*ticket),
        _ => None,
    });
    let over = samples::settled(&gone, "allowed", "person", "allowed by you in terminal");
    let ticket = ticket.unwrap();
    next.run(|machine, now, out| {
        machine.replied(Reply::Looked { ticket, ask: Some(Box::new(over)) }, now, out)
    });
    let calls = next.serve();
    let is_send = |call: &Call| matches!(call, Call::Send { .. });
    assert!(!calls.iter().any(is_send), "{calls:?}");
    let ended = |call: &Call| matches!(call, Call::Edit { message: 102, text, .. } if text.plain.contains("allowed by you"));
    assert!(calls.iter().any(ended), "{calls:?}");
    // Buttons of before are still good.
    next.tap(80, 11, 101, &button(&cards[0], "Allow"));
    assert_eq!(next.answers().len(), 1);
}

#[test]
fn s5_updates_that_nobody_understands_are_passed_over() {
    let mut rig = Rig::new(Vec::new());
    rig.updates(json!([
        {"update_id": 5, "message": {"text": 7}}, {"update_id": 6}, {"no": "number"}, "text", null,
        {"update_id": 7, "callback_query": {"id": "x", "from": {"id": 11}, "inline_message_id": "1", "data": "y"}},
        {"update_id": 8, "message": {"message_id": 1, "date": 1, "chat": {"id": CHAT, "type": "private"}, "from": {"id": 11}}},
    ]));
    assert_eq!(rig.poll.unwrap().1, 9);
    assert!(rig.calls.is_empty());
}

#[test]
fn s5_a_forwarded_yes_is_not_said_here() {
    let mut rig = Rig::new(vec![samples::ask("k7f")]);
    rig.serve();
    rig.updates(json!([{"update_id": 5, "message": {
        "message_id": 300, "date": 99_999_999_999_i64, "chat": {"id": CHAT, "type": "private"},
        "from": {"id": 11, "first_name": "A"}, "text": "y", "forward_origin": {"type": "user"},
    }}]));
    assert_eq!(rig.answers(), []);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn s7_no_update_of_a_server_panics_or_answers(
        text in "\\PC{0,60}",
        data in "[1ynmocb0-9A-Za-z_-]{0,70}",
        numbers in proptest::collection::vec(proptest::prelude::any::<i64>(), 4),
        kind in 0..6,
    ) {
        let mut rig = Rig::new(vec![samples::ask("k7f")]);
        rig.serve();
        let person = json!({"id": 11, "first_name": text});
        let chat = json!({"id": CHAT, "type": "private"});
        let update = match kind {
            0 => json!({"update_id": numbers[0], "callback_query": {"id": text, "from": person, "data": data, "message": {"message_id": numbers[1], "chat": chat}}}),
            1 => json!({"update_id": numbers[0], "message": {"message_id": numbers[1], "date": numbers[2], "chat": chat, "from": person, "text": format!("/{text}")}}),
            2 => json!({"update_id": numbers[0], "message": {"message_id": numbers[1], "date": numbers[2], "chat": chat, "from": person, "text": text}}),
            3 => json!({"update_id": numbers[0], "message": {"message_id": 1, "chat": chat, "from": {"id": numbers[1]}, "text": "y"}}),
            4 => json!({"update_id": 5, "message": {"message_id": 1, "chat": {"id": numbers[1]}, "from": person, "text": "y"}}),
            _ => json!([text, numbers]),
        };
        let bare = text.trim().to_lowercase();
        let is_answer = ["y", "yes", "n", "no", "deny"].iter().any(|word| bare.starts_with(word));
        rig.updates(json!([update]));
        proptest::prop_assert!(rig.answers().is_empty() || (kind == 2 && is_answer));
    }
}
