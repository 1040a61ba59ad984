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

#[test]
fn s5_the_number_behind_a_tap_is_kept_after_its_answer_and_confirmed_after_that() {
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
fn s5_a_tap_that_the_journal_did_not_take_is_tried_again() {
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

/// A reply to a message of the bot.
fn reply_to(message: i64, text: &str) -> Value {
    let of = json!({"message_id": message, "date": 5, "chat": {"id": CHAT}, "from": {"id": 1}, "text": text});
    json!({"reply_to_message": of})
}

#[test]
fn s5_a_yes_that_is_a_reply_to_nothing_answers_nothing() {
    // The newest card is on the screen, and its sending is not confirmed yet.
    let mut rig = Rig::new(vec![samples::ask("k7f")]);
    rig.serve();
    rig.run(|machine, now, out| machine.show(samples::ask("m2c"), now, out));
    for (update, text) in ["y", "Yes!", "n", "no"].into_iter().enumerate() {
        rig.write(i64::try_from(update).unwrap() + 5, "private", text, json!({}));
    }
    assert_eq!(rig.answers(), []);
    assert_eq!(rig.wishes.iter().filter(|wish| matches!(wish, Wish::List { .. })).count(), 4);
}

#[test]
fn s5_a_yes_to_somebody_else_answers_nothing() {
    let bobs =
        json!({"message_id": 50, "date": 5, "chat": {"id": CHAT}, "from": {"id": 99}, "text": "lunch?"});
    for kind in ["private", "group", "supergroup"] {
        let mut rig = Rig::new(vec![samples::ask("k7f")]);
        rig.serve();
        rig.write(5, kind, "Yes!", json!({"reply_to_message": bobs}));
        rig.write(6, kind, "y", json!({"external_reply": {"origin": {"type": "chat"}}}));
        rig.write(7, kind, "y", json!({}));
        assert_eq!(rig.answers(), [], "{kind}");
        assert_eq!(rig.calls.is_empty(), kind != "private", "{kind}: {:?}", rig.calls);
    }
}

#[test]
fn s5_a_tool_named_like_the_question_for_words_takes_yes_for_yes() {
    for tool in ["why not?", "✍ k7f · why not?", "x · why not?"] {
        let mut ask = samples::ask("k7f");
        ask.action.tool = tool.to_owned();
        let mut rig = Rig::new(vec![ask]);
        let Call::Send { text, .. } = rig.serve().remove(0) else { panic!() };
        rig.write(5, "private", "y", reply_to(101, &text.plain));
        assert_eq!(rig.answers().len(), 1);
        assert_eq!(rig.answers()[0].0, Decision::Allow, "{tool}");
    }
    // The question itself, known or not, takes words.
    let mut rig = Rig::new(vec![samples::ask("k7f")]);
    rig.serve();
    rig.write(5, "private", "y", reply_to(555, &crate::telegram::text::prompt(&samples::ask("k7f")).plain));
    // Nobody knows that message, so its handle is looked up.
    let ticket = rig.wishes.iter().find_map(|wish| match wish {
        Wish::Look { ticket, .. } => Some(*ticket),
        _ => None,
    });
    let ask = Some(Box::new(samples::ask("k7f")));
    rig.run(|machine, now, out| machine.replied(Reply::Looked { ticket: ticket.unwrap(), ask }, now, out));
    assert_eq!(rig.answers()[0].0, Decision::Deny);
}

#[test]
fn s5_the_bot_hears_on_after_its_state_was_refused() {
    let mut rig = Rig::new(vec![samples::ask("k7f")]);
    rig.serve();
    rig.full = true;
    rig.write(5, "private", "/permissions", json!({}));
    let ticket = rig.wishes.iter().find_map(|wish| match wish {
        Wish::Command { ticket, .. } => Some(*ticket),
        _ => None,
    });
    let reply = Reply::Text { ticket: ticket.unwrap(), text: Ok("as ever".to_owned()) };
    rig.run(|machine, now, out| machine.replied(reply, now, out));
    rig.serve();
    // Nobody brings an ask, no deadline runs: only the machine itself can go on.
    assert!(rig.poll.is_none());
    rig.wait();
    assert!(rig.trouble().is_some_and(|trouble| trouble.contains("the journal does not take")));
    rig.wait();
    rig.full = false;
    rig.wait();
    assert_eq!(rig.poll.map(|poll| poll.1), Some(6));
    assert_eq!(rig.trouble(), None);
}

#[test]
fn s4_an_option_that_does_not_fit_whole_cannot_be_chosen() {
    let mut ask = samples::ask("k7f");
    let whole = Rig::new(vec![ask.clone()]).serve().remove(0);
    // The same button, of a card on which it fitted.
    let choose = button(&whole, "allow always");
    ask.options[2].grants =
        Some(format!("Bash(ls:*), {}Bash(rm -rf /:*)", "Bash(git status:*), ".repeat(30)));
    let mut rig = Rig::new(vec![ask.clone()]);
    let Call::Send { text, buttons, .. } = rig.serve().remove(0) else { panic!() };
    assert!(!buttons.iter().flatten().any(|(label, _)| label.contains("always")), "{buttons:?}");
    assert!(text.plain.contains("more options (1): askd show k7f"), "{}", text.plain);
    rig.updates(json!([]));
    rig.tap(5, 11, 101, &choose);
    let confirmed = crate::telegram::seal::seal(&[3; 32], crate::telegram::seal::Verb::Confirmed(2), &ask);
    rig.tap(6, 11, 101, &confirmed);
    assert_eq!(rig.answers(), []);
    assert!(
        rig.calls
            .iter()
            .all(|(.., call)| matches!(call, Call::Toast { text, .. } if text.contains("askd show")))
    );
}

#[test]
fn s4_the_name_of_a_tool_is_on_the_card_to_its_end() {
    let mut ask = samples::ask("k7f");
    ask.action.tool = "mcp__tools__list_all_the_buckets_in_this_account_and_delete_them".to_owned();
    let Call::Send { text, .. } = Rig::new(vec![ask.clone()]).serve().remove(0) else { panic!() };
    assert!(text.plain.contains(&ask.action.tool), "{}", text.plain);
}

#[test]
fn t7_a_command_for_another_bot_is_not_for_this_one() {
    let mut rig = Rig::new(Vec::new());
    rig.write(5, "group", "/skip_permissions@other_bot on", json!({}));
    let (_, number, call) = rig.calls.remove(0);
    assert_eq!((call, rig.commands()), (Call::Me, 0));
    // A server that cannot be reached takes nothing away.
    rig.sent(number, Sent::Unreachable("gone".to_owned()));
    rig.wait();
    let (_, number, _) = rig.calls.remove(0);
    rig.sent(number, Sent::Done(json!({"id": 1, "username": "My_bot"})));
    assert_eq!((rig.commands(), rig.calls.len()), (0, 0));
    rig.write(6, "group", "/skip_permissions@my_BOT on", json!({}));
    assert_eq!(rig.commands(), 1);
}

#[test]
fn t7_a_change_that_waited_at_the_server_is_not_made() {
    let mut rig = Rig::new(Vec::new());
    let old = rig.now.wall_ms / 1000 - 20 * 3600;
    for (update, text) in ["/skip-permissions on", "/permissions default allow"].into_iter().enumerate() {
        rig.write(i64::try_from(update).unwrap() + 5, "private", text, json!({"date": old}));
    }
    assert_eq!(rig.commands(), 0);
    let said = rig.serve();
    let told = |call: &Call| matches!(call, Call::Send { text, .. } if text.plain.contains("20h ago"));
    assert!(said.len() == 2 && said.iter().all(told), "{said:?}");
    // Asking again is never too late.
    rig.write(7, "private", "/skip-permissions off", json!({"date": old}));
    assert_eq!(rig.commands(), 1);
}

#[test]
fn t15_a_card_whose_last_edit_the_chat_refused_is_ended_when_the_chat_works_again() {
    let ask = samples::ask("k7f");
    let mut rig = Rig::new(vec![ask.clone()]);
    rig.serve();
    let over = samples::settled(&ask, "denied", "person", "denied by you in terminal");
    rig.run(|machine, now, out| machine.update(over, "settled", now, out));
    let blocked = Refused {
        code: 403,
        description: "Forbidden: bot was blocked by the user".into(),
        ..Refused::default()
    };
    for _ in 0..3 {
        let (_, number, call) = rig.calls.remove(0);
        assert!(matches!(call, Call::Edit { message: 101, .. }), "{call:?}");
        rig.sent(number, Sent::Refused(blocked.clone()));
        assert!(rig.trouble().is_some_and(|trouble| trouble.contains("blocked")));
        assert!(rig.calls.is_empty(), "not at once");
        rig.wait();
    }
    let done = rig.serve();
    assert!(matches!(&done[..], [Call::Edit { buttons, .. }] if buttons.is_empty()), "{done:?}");
    assert_eq!(rig.trouble(), None);
    // A new card is not held up by one that is stuck, and its success ends the other at once.
    let (first, second) = (samples::ask("k7f"), samples::ask("m2c"));
    let mut rig = Rig::new(vec![first.clone()]);
    rig.serve();
    let over = samples::settled(&first, "denied", "person", "denied by you in terminal");
    rig.run(|machine, now, out| machine.update(over, "settled", now, out));
    let (_, number, _) = rig.calls.remove(0);
    rig.sent(number, Sent::Refused(blocked));
    rig.run(|machine, now, out| machine.show(second, now, out));
    let done = rig.serve();
    assert!(matches!(&done[..], [Call::Send { .. }, Call::Edit { message: 101, .. }]), "{done:?}");
    // One that is not there any more needs no end.
    let mut rig = Rig::new(vec![first.clone()]);
    rig.serve();
    let over = samples::settled(&first, "denied", "person", "denied by you in terminal");
    rig.run(|machine, now, out| machine.update(over, "settled", now, out));
    let (_, number, _) = rig.calls.remove(0);
    let description = "Bad Request: message to edit not found".into();
    rig.sent(number, Sent::Refused(Refused { code: 400, description, ..Refused::default() }));
    assert!(rig.calls.is_empty() && rig.trouble().is_none());
}

#[test]
fn t15_a_card_whose_ask_ended_under_an_edit_of_before_is_kept_until_its_end_is_shown() {
    let ask = samples::ask("k7f");
    let mut rig = Rig::new(vec![ask.clone()]);
    rig.serve();
    rig.now.wall_ms += 60_000;
    rig.wait();
    let (_, number, call) = rig.calls.remove(0);
    assert!(matches!(&call, Call::Edit { buttons, .. } if !buttons.is_empty()), "{call:?}");
    let over = samples::settled(&ask, "denied", "person", "denied by you in terminal");
    rig.run(|machine, now, out| machine.update(over, "settled", now, out));
    rig.sent(number, Sent::Done(json!({"message_id": 101, "date": 5})));
    rig.updates(json!([]));
    assert_eq!(rig.kept().unwrap()["cards"].as_array().map(Vec::len), Some(1));
    assert!(matches!(&rig.serve()[..], [Call::Edit { buttons, .. }] if buttons.is_empty()));
    assert_eq!(rig.kept().unwrap()["cards"].as_array().map(Vec::len), Some(0));
}

#[test]
fn s5_a_daemon_that_cannot_say_loses_neither_a_tap_nor_a_card() {
    let ask = samples::ask("k7f");
    let mut rig = Rig::new(vec![ask.clone()]);
    let card = rig.serve().remove(0);
    rig.updates(json!([]));
    let kept = rig.kept();
    let mut next = Rig::before(1);
    next.run(|machine, now, out| machine.begin(kept, Vec::new(), now, out));
    let looks = |rig: &Rig| -> Vec<u64> {
        let ticket = |wish: &Wish| match wish {
            Wish::Look { ticket, .. } => Some(*ticket),
            _ => None,
        };
        rig.wishes.iter().filter_map(ticket).collect()
    };
    let failed = |rig: &mut Rig, ticket| {
        let why = "the daemon is stopping".to_owned();
        rig.run(|machine, now, out| machine.replied(Reply::Failed { ticket, why }, now, out));
    };
    // Its card is looked up, and its tap too.
    next.tap(70, 11, 101, &button(&card, "Allow"));
    for ticket in looks(&next) {
        failed(&mut next, ticket);
    }
    assert!(next.calls.is_empty() && next.poll.is_none(), "{:?}", next.calls);
    next.wishes.clear();
    next.wait();
    let looked = looks(&next);
    assert_eq!(looked.len(), 2);
    for ticket in looked {
        let ask = Some(Box::new(ask.clone()));
        next.run(|machine, now, out| machine.replied(Reply::Looked { ticket, ask }, now, out));
    }
    assert_eq!(next.answers().len(), 1);
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
        rig.updates(json!([update]));
        proptest::prop_assert!(rig.answers().is_empty());
    }
}
