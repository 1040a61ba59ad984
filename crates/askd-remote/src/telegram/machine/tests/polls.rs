//! What comes from the server: taps, numbers, and what the journal and the daemon make of them.

use super::*;

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
