//! The double keeps to its table: every row refuses what it says, and what is within passes.

use anyhow::{Context, Result};
use askd_tests::bot::limits::{self, Limit, parse_html};
use askd_tests::bot::{Bot, Fault, Person, TOKEN};
use serde_json::{Value, json};

const CHAT: i64 = 5;
const EVE: Person = Person { id: 5, name: "Eve" };

fn refused(bot: &Bot, method: &str, body: &Value, limit: Limit) -> Result<()> {
    let (code, reply) = bot.call(method, body)?;
    assert_eq!((code, &reply["description"]), (limit.code, &limit.says.into()), "{}", limit.name);
    Ok(())
}

fn sent(bot: &Bot, body: &Value) -> Result<i64> {
    let (code, reply) = bot.call("sendMessage", body)?;
    assert_eq!(code, 200, "{reply}");
    reply["result"]["message_id"].as_i64().context("no message id")
}

#[test]
fn every_row_has_a_source_and_a_name_of_its_own() {
    let mut names: Vec<_> = limits::ALL.iter().map(|limit| limit.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), limits::ALL.len());
    assert!(limits::ALL.iter().all(|limit| limit.source.len() > 10));
}

#[test]
fn texts_and_buttons() -> Result<()> {
    let bot = Bot::start(&[CHAT])?;
    let text = |text: &str| json!({"chat_id": CHAT, "text": text});
    sent(&bot, &text(&"x".repeat(limits::TEXT.most)))?;
    refused(&bot, "sendMessage", &text(&"x".repeat(limits::TEXT.most + 1)), limits::TEXT)?;
    refused(&bot, "sendMessage", &text(&"😀".repeat(limits::TEXT.most / 2 + 1)), limits::TEXT)?;
    refused(&bot, "sendMessage", &text("  \n"), limits::NO_TEXT)?;
    refused(&bot, "sendMessage", &json!({"chat_id": 6, "text": "x"}), limits::NO_CHAT)?;
    // Counted after the entities are parsed.
    let html = format!("<b>{}</b>", "&lt;".repeat(limits::TEXT.most));
    sent(&bot, &json!({"chat_id": CHAT, "text": html, "parse_mode": "HTML"}))?;
    for bad in ["<b>x", "x</b>", "<script>x</script>", "a < b", "&nbsp;", "<b><i>x</b></i>"] {
        let body = json!({"chat_id": CHAT, "text": bad, "parse_mode": "HTML"});
        refused(&bot, "sendMessage", &body, limits::ENTITIES)?;
    }
    assert_eq!(parse_html("<b>a</b> &amp; <pre>&lt;</pre>").as_deref(), Some("a & <"));
    let button = |data: &str| json!({"chat_id": CHAT, "text": "x", "reply_markup": {"inline_keyboard": [[{"text": "b", "callback_data": data}]]}});
    sent(&bot, &button(&"d".repeat(limits::BUTTON_DATA.most)))?;
    refused(&bot, "sendMessage", &button(&"d".repeat(limits::BUTTON_DATA.most + 1)), limits::BUTTON_DATA)?;
    Ok(())
}

#[test]
fn a_selective_question_is_for_the_author_of_what_it_replies_to() -> Result<()> {
    let bot = Bot::start(&[CHAT])?;
    let (own, hers) = (sent(&bot, &json!({"chat_id": CHAT, "text": "x"}))?, bot.write(EVE, CHAT, "y", None));
    for (to, selective, asked) in [(own, true, false), (own, false, true), (hers, true, true)] {
        let body = json!({
            "chat_id": CHAT, "text": "why?", "reply_parameters": {"message_id": to},
            "reply_markup": {"force_reply": true, "selective": selective},
        });
        let id = sent(&bot, &body)?;
        let shown = bot.chat(CHAT).into_iter().find(|shown| shown.id == id).context("not sent")?;
        assert_eq!(shown.force_reply, asked, "{to} {selective}: {}", limits::SELECTIVE.source);
    }
    Ok(())
}

#[test]
fn edits() -> Result<()> {
    let bot = Bot::start(&[CHAT])?;
    let id = sent(&bot, &json!({"chat_id": CHAT, "text": "one"}))?;
    let edit = |id: i64, text: &str| json!({"chat_id": CHAT, "message_id": id, "text": text});
    refused(&bot, "editMessageText", &edit(id, "one"), limits::NOT_MODIFIED)?;
    assert_eq!(bot.call("editMessageText", &edit(id, "two"))?.0, 200);
    refused(&bot, "editMessageText", &edit(id + 1, "x"), limits::NO_MESSAGE)?;
    bot.freeze(CHAT, id);
    refused(&bot, "editMessageText", &edit(id, "three"), limits::NOT_EDITABLE)?;
    bot.block(CHAT, true);
    refused(&bot, "sendMessage", &json!({"chat_id": CHAT, "text": "x"}), limits::BLOCKED)?;
    Ok(())
}

#[test]
fn taps_are_answered_once_and_not_for_ever() -> Result<()> {
    let bot = Bot::start(&[CHAT])?;
    let answer = |tap: &str, text: &str| json!({"callback_query_id": tap, "text": text});
    let tap = bot.tap_data(EVE, CHAT, 1, "x");
    refused(&bot, "answerCallbackQuery", &answer(&tap, &"x".repeat(limits::TOAST.most + 1)), limits::TOAST)?;
    assert_eq!(bot.call("answerCallbackQuery", &answer(&tap, "ok"))?.0, 200);
    refused(&bot, "answerCallbackQuery", &answer(&tap, "again"), limits::TAP_AGE)?;
    let old = bot.tap_data(EVE, CHAT, 1, "x");
    bot.expire_taps();
    refused(&bot, "answerCallbackQuery", &answer(&old, "late"), limits::TAP_AGE)?;
    Ok(())
}

#[test]
fn polls() -> Result<()> {
    let bot = Bot::start(&[CHAT])?;
    for n in 0..=limits::UPDATES.most {
        bot.write(EVE, CHAT, &n.to_string(), None);
    }
    let poll = |offset: i64| -> Result<Vec<i64>> {
        let (_, reply) = bot.call("getUpdates", &json!({"offset": offset, "timeout": 0, "limit": 1000}))?;
        let ids = reply["result"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|update| update["update_id"].as_i64());
        Ok(ids.collect())
    };
    let first = poll(0)?;
    assert_eq!(first.len(), limits::UPDATES.most);
    assert_eq!(poll(0)?, first, "they stay until they are confirmed");
    let last = poll(first[first.len() - 1] + 1)?;
    assert_eq!(last.len(), 1);
    assert_eq!(poll(last[0] + 1)?, Vec::<i64>::new());
    assert_eq!(poll(0)?, Vec::<i64>::new(), "they are forgotten");

    // The older of two polls is ended.
    let body = json!({"timeout": 50});
    std::thread::scope(|scope| -> Result<()> {
        let before = bot.calls("getUpdates").len();
        let older = scope.spawn(|| bot.call("getUpdates", &body));
        askd_tests::until("the older poll", || Ok((bot.calls("getUpdates").len() > before).then_some(())))?;
        // Counted before it waits; a second one meets it there.
        let ended = askd_tests::until("its end", || {
            bot.call("getUpdates", &json!({"timeout": 0}))?;
            Ok(older.is_finished().then_some(()))
        });
        ended?;
        let (code, reply) = older.join().expect("no panic")?;
        assert_eq!((code, &reply["description"]), (409, &limits::SECOND_POLL.says.into()));
        Ok(())
    })?;
    bot.webhook(true);
    refused(&bot, "getUpdates", &json!({"timeout": 0}), limits::WEBHOOK)?;
    Ok(())
}

#[test]
fn refusals_that_a_test_asks_for() -> Result<()> {
    let bot = Bot::start(&[CHAT])?;
    bot.fault("sendMessage", Some(CHAT), Fault::flood(7));
    let (code, reply) = bot.call("sendMessage", &json!({"chat_id": CHAT, "text": "x"}))?;
    assert_eq!((code, &reply["parameters"]["retry_after"]), (limits::FLOOD.code, &7.into()));
    assert!(reply["description"].as_str().unwrap().starts_with(limits::FLOOD.says));
    bot.fault("sendMessage", None, Fault::of(limits::SUPERGROUP));
    refused(&bot, "sendMessage", &json!({"chat_id": CHAT, "text": "x"}), limits::SUPERGROUP)?;
    let (code, reply) = bot.call_as(&TOKEN.replace("4242", "1"), "getMe", &json!({}))?;
    assert_eq!((code, &reply["description"]), (limits::TOKEN.code, &limits::TOKEN.says.into()));
    Ok(())
}
