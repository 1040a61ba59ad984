//! What people write: replies and commands.

use super::*;

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
