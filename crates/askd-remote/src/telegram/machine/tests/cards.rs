//! Cards: what is sent, edited and ended, whatever fails on the way.

use super::*;

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
